// SPDX-License-Identifier: Apache-2.0
/** An engine as one check sees it: the calls of the protocol by name, each of which fails where the engine refuses it. */
import { sleep } from "@whetstone/core";
import { Skipped } from "../run-checks.ts";
import { type Answer, readAnswer } from "./answer.ts";
import { type EngineApi, messageOf, type Reply, shown } from "./engine-api.ts";
import { metricSum } from "./metric-text.ts";
import { RunningAnswer } from "./running-answer.ts";

/** What the engine said of itself before the checks. */
export interface EngineFacts {
  /** The name that it serves its model by. */
  readonly model: string;
  /** Longest prompt and answer together, in tokens. */
  readonly maxLength: number;
  /** A short prompt, in its own tokens. */
  readonly prompt: readonly number[];
  /** A prompt that fills several blocks of a prefix cache. */
  readonly longPrompt: readonly number[];
  /** Length of an answer that took seconds at first, so that something can be done to it meanwhile; later it may be faster. */
  readonly longAnswer: number;
}

export interface EngineSettings {
  /** Folder of the weights that it serves, as the engine reads it. */
  readonly model?: string | undefined;
  /** Folder of other weights of the same shape. */
  readonly otherModel?: string | undefined;
  readonly adapters: readonly string[];
  /** How far two log-probabilities of the same token may be apart, in nats. */
  readonly tolerance: number;
  /** Of one load of weights. */
  readonly loadTimeoutMs: number;
}

/** What the checks did to the engine's weights. */
export interface WeightsRecord {
  /** It has those that it had before. */
  areOriginal: boolean;
  /** Some were loaded, or tried. */
  wereLoaded: boolean;
}

export type PauseMode = "abort" | "wait" | "keep";

/** Of the body of a generate request; those of `sampling_params` are given apart. */
export type Fields = Readonly<Record<string, unknown>>;

const GREEDY = { temperature: 0, max_tokens: 8, logprobs: 0, ignore_eos: true };
/** The protocol gives an engine 2 s to end what was stopped; a busy machine gets more. */
export const ENDS_WITHIN_MS = 5_000;
const LOOKS_EVERY_MS = 20;

export class Engine {
  readonly api: EngineApi;
  readonly facts: EngineFacts;
  readonly settings: EngineSettings;
  readonly #weights: WeightsRecord;

  constructor(api: EngineApi, facts: EngineFacts, settings: EngineSettings, weights: WeightsRecord) {
    this.api = api;
    this.facts = facts;
    this.settings = settings;
    this.#weights = weights;
  }

  /** The body of a generate request: greedy and with log-probabilities, unless told otherwise. */
  body(ids: readonly number[], sampling: Fields = {}, fields: Fields = {}): object {
    const { model } = this.facts;
    return { model, token_ids: ids, sampling_params: { ...GREEDY, ...sampling }, ...fields };
  }

  async generate(ids: readonly number[], sampling?: Fields, fields?: Fields): Promise<Answer> {
    return readAnswer((await this.ok("/inference/v1/generate", this.body(ids, sampling, fields))).body);
  }

  /** A stream; it ends with the check at the latest. */
  start(ids: readonly number[], sampling?: Fields, fields?: Fields): RunningAnswer {
    return new RunningAnswer(this.api, this.body(ids, sampling, { ...fields, stream: true }));
  }

  /** @throws Error for any other status than 200 */
  async ok(path: `/${string}`, body?: object, timeoutMs?: number): Promise<Reply> {
    const reply = await this.api.post(path, body, timeoutMs);
    if (reply.status !== 200) throw new Error(`POST ${path} answered ${reply.status}: ${shown(reply.body)}`);
    return reply;
  }

  async pause(mode: PauseMode = "abort", clearCache = true): Promise<void> {
    // It may wait for whole answers.
    const timeoutMs = mode === "wait" ? this.settings.loadTimeoutMs : undefined;
    const path = `/pause?mode=${mode}&clear_cache=${clearCache}` as const;
    const { status, body } = await this.api.post(path, undefined, timeoutMs);
    // A switch never needs it (STRICT); an engine without labels for each token must not have it.
    if (mode === "keep" && status === 501) throw new Skipped(`it refuses to pause with mode=keep: ${messageOf(body)}`);
    if (status !== 200) throw new Error(`POST ${path} answered ${status}: ${shown(body)}`);
  }

  async resume(): Promise<void> {
    await this.ok("/resume");
  }

  async isPaused(): Promise<boolean> {
    const { is_paused } = await this.#field("/is_paused", "is_paused", "boolean");
    return is_paused as boolean;
  }

  async label(): Promise<string> {
    const { weight_version } = await this.#field("/weight_info", "weight_version", "string");
    return weight_version as string;
  }

  async setLabel(label: string): Promise<void> {
    await this.ok("/update_weight_version", { new_version: label });
  }

  /** Whatever comes of it, also that nothing does: the weights are taken for changed unless they are the original ones. */
  async reload(folder: string): Promise<Reply> {
    Object.assign(this.#weights, { areOriginal: false, wereLoaded: true });
    const body = { method: "reload_weights", kwargs: { weights_path: folder } };
    const reply = await this.api.post("/collective_rpc", body, this.settings.loadTimeoutMs);
    this.#weights.areOriginal = reply.status === 200 && folder === this.settings.model;
    return reply;
  }

  /** @throws Error when the engine refuses the folder */
  async mustReload(folder: string): Promise<void> {
    const { status, body } = await this.reload(folder);
    if (status !== 200) throw new Error(`it refuses the weights in ${folder} with ${status}: ${shown(body)}`);
  }

  /** The strict switch of the protocol: pause, load, label, resume. */
  async switchTo(folder: string, label: string, clearCache = true): Promise<void> {
    await this.pause("abort", clearCache);
    await this.mustReload(folder);
    await this.setLabel(label);
    await this.resume();
  }

  /** The sum of a metric over its labels, without the prefix "vllm:". @throws Error when it is not there */
  async metric(name: string): Promise<number> {
    const { body } = await this.api.get("/metrics");
    const value = metricSum(String(body), name);
    if (value === undefined) throw new Error(`GET /metrics has no vllm:${name}`);
    return value;
  }

  /** Waits until nothing runs, before something is measured: what a check before left may still end. */
  async settle(): Promise<void> {
    await this.idle(this.api.timeoutMs);
  }

  /** Waits until nothing runs, which is soon. @returns how long, in milliseconds */
  async idle(withinMs = ENDS_WITHIN_MS): Promise<number> {
    const began = performance.now();
    const isIdle = async (): Promise<boolean> => (await this.metric("num_requests_running")) === 0;
    await waitUntil(isIdle, "vllm:num_requests_running is not 0", withinMs);
    return Math.round(performance.now() - began);
  }

  async #field(path: `/${string}`, name: string, type: string): Promise<Fields> {
    const { status, body } = await this.api.get(path);
    const fields = (body ?? {}) as Fields;
    if (status === 200 && typeof fields[name] === type) return fields;
    throw new Error(`GET ${path} answered ${status}: ${shown(body)}`);
  }
}

export function must(condition: boolean, otherwise: string): asserts condition {
  if (!condition) throw new Error(otherwise);
}

/** @param otherwise  what is wrong if it does not come true in time */
export async function waitUntil(
  condition: () => boolean | Promise<boolean>,
  otherwise: string,
  withinMs = ENDS_WITHIN_MS,
): Promise<void> {
  const end = performance.now() + withinMs;
  while (!(await condition())) {
    must(performance.now() < end, `${otherwise} within ${withinMs / 1000} s`);
    await sleep(LOOKS_EVERY_MS);
  }
}
