// SPDX-License-Identifier: Apache-2.0
import { WhetstoneError } from "@whetstone/core";
import type { PolicyRecord } from "@whetstone/proto/events/v1/events";
import { Agent, request } from "undici";
import type { Authority } from "../leading/lead.ts";

/** Deadlines of control calls in milliseconds. A pause waits for the step that runs, a load for the disk. */
const PAUSE_MS = 300_000;
const LOAD_MS = 720_000;
const QUICK_MS = 60_000;

/** Statuses of an engine, or of what stands before it, that is starting, busy or gone. Any other one is its answer. */
const AWAY: ReadonlySet<number> = new Set([408, 429, 502, 503, 504]);

/** Of an engine, or of what stands before it, that does not have a route. */
const NO_ROUTE: ReadonlySet<number> = new Set([404, 405]);

/** What our own engines, and our proxy before others, say of what not every engine can. */
export interface OwnInfo {
  /** Where weights are read from; "": nowhere. */
  readonly object_store?: string;
  /** Parameters of truncated sampling under which the tokens that each one was drawn from are named. */
  readonly names_support?: readonly string[];
}

/**
 * The control plane of one engine (IEP/1). Each instance has connections of its own, so that control never queues behind
 * data; after a failure they are dropped, because vLLM closes a connection after a 500 without saying so.
 */
export class EngineControl implements AsyncDisposable {
  readonly #url: string;
  readonly #agent: Agent;
  readonly #lead: Authority | undefined;

  /**
   * @param connect  of an engine with an https:// URL; default: as any server.
   * @param lead  whose epoch goes with every call.
   */
  constructor(url: string, connect?: Agent.Options["connect"], lead?: Authority) {
    this.#lead = lead;
    this.#url = url.replace(/\/$/, "");
    const secured = url.startsWith("https:") && connect ? { connect } : {};
    this.#agent = new Agent({ connections: 2, keepAliveTimeout: 4000, ...secured });
  }

  async isPaused(signal: AbortSignal): Promise<boolean> {
    const body = (await this.#call({ method: "GET", path: "/is_paused", timeoutMs: QUICK_MS }, signal)) as {
      is_paused?: boolean;
    };
    return body.is_paused === true;
  }

  /** After this no further token is sampled until `resume`; what ran has ended with finish reason "abort". */
  async pause(signal: AbortSignal): Promise<void> {
    await this.#call({ method: "POST", path: "/pause?mode=abort&clear_cache=true", timeoutMs: PAUSE_MS }, signal);
  }

  async resume(signal: AbortSignal): Promise<void> {
    await this.#call({ method: "POST", path: "/resume", timeoutMs: QUICK_MS }, signal);
  }

  /** The label the engine reports for its weights. */
  async label(signal: AbortSignal): Promise<string> {
    const body = (await this.#call({ method: "GET", path: "/weight_info", timeoutMs: QUICK_MS }, signal)) as {
      weight_version?: string;
    };
    return body.weight_version ?? "";
  }

  /** What not every engine can, as its first model says. */
  async ownInfo(signal: AbortSignal): Promise<OwnInfo> {
    return (await this.#models(signal))[0] ?? {};
  }

  async setLabel(label: string, signal: AbortSignal): Promise<void> {
    await this.#call({ method: "POST", path: "/update_weight_version", timeoutMs: QUICK_MS }, signal, {
      new_version: label,
    });
  }

  /**
   * Reads and verifies weights while it samples on: from their folder, or from their URL where they have one.
   * @returns false for an engine that can only load a folder within its pause
   * @throws ENGINE_FAILED for one that cannot fetch weights which have a URL
   */
  async stageWeights(
    { path, url, policyVersion, manifestDigest }: PublishedPolicy,
    signal: AbortSignal,
  ): Promise<boolean> {
    const call = { method: "POST", path: "/stage_weights", timeoutMs: LOAD_MS, optional: true } as const;
    // Version 0 is the user's own folder: it has no digest, and every engine sees it.
    const isStreamed = url !== "" && manifestDigest !== "";
    const stream = isStreamed && { stream: { url: `${url}/v${policyVersion}`, manifest_digest: manifestDigest } };
    const isStaged = (await this.#call(call, signal, { weights_path: path, ...stream })) !== undefined;
    if (isStreamed && !isStaged) {
      const how = url.startsWith("s3:") ? "objectStore" : "stream";
      const message = `engine ${this.#url} cannot fetch weights: weights.transport.${how} needs engines of profile pytorch, or of vllm with a folder for what they fetch (engine.weightsVolume); use folder`;
      throw new WhetstoneError("ENGINE_FAILED", message, { retry: "never" });
    }
    return isStaged;
  }

  async loadWeights(path: string, signal: AbortSignal): Promise<void> {
    const body = { method: "reload_weights", kwargs: { weights_path: path } };
    await this.#call({ method: "POST", path: "/collective_rpc", timeoutMs: LOAD_MS }, signal, body);
  }

  /** Adapters that it has loaded, by name, with their folders. */
  async adapters(signal: AbortSignal): Promise<Map<string, string>> {
    const adapters = (await this.#models(signal)).filter(({ parent }) => typeof parent === "string");
    return new Map(adapters.map(({ id, root }) => [id, root ?? ""]));
  }

  async #models(signal: AbortSignal): Promise<readonly ModelCard[]> {
    const call = { method: "GET", path: "/v1/models", timeoutMs: QUICK_MS } as const;
    return ((await this.#call(call, signal)) as { readonly data?: readonly ModelCard[] }).data ?? [];
  }

  /** @throws ENGINE_FAILED for an engine that serves no adapters, or with its words for one that it refuses */
  async loadAdapter(name: string, folder: string, signal: AbortSignal): Promise<void> {
    const call = { method: "POST", path: "/v1/load_lora_adapter", timeoutMs: LOAD_MS, optional: true } as const;
    const done = await this.#call(call, signal, { lora_name: name, lora_path: folder });
    if (done !== undefined) return;
    const message = `engine ${this.#url} serves no adapters, or does not see ${folder}: engines of profile pytorch serve them`;
    throw new WhetstoneError("ENGINE_FAILED", message, { retry: "never" });
  }

  /** What it answers by the adapter goes on to its end. */
  async unloadAdapter(name: string, signal: AbortSignal): Promise<void> {
    const call = { method: "POST", path: "/v1/unload_lora_adapter", timeoutMs: QUICK_MS, optional: true } as const;
    await this.#call(call, signal, { lora_name: name });
  }

  /**
   * One greedy token from a fixed prompt; throws unless its log-probability is finite and it carries the label.
   * @param model  the name of an adapter; absent: the engine's own weights
   */
  async canary(label: string, signal: AbortSignal, model?: string): Promise<void> {
    const sampling_params = { max_tokens: 1, temperature: 0, logprobs: 0 };
    const body = { request_id: `canary-${Date.now()}`, model, token_ids: [1, 2, 3], stream: false, sampling_params };
    const answer = (await this.#call(
      { method: "POST", path: "/inference/v1/generate", timeoutMs: QUICK_MS },
      signal,
      body,
    )) as CanaryAnswer;
    const choice = answer.choices[0];
    const logprob = choice?.logprobs?.content[0]?.logprob;
    if (logprob === undefined || !Number.isFinite(logprob) || logprob <= -9999)
      throw new WhetstoneError("CONTRACT_VIOLATION", `engine ${this.#url}: canary has no finite log-probability`);
    const span = choice?.weight_versions?.[0]?.version;
    if (span !== undefined && span !== label)
      throw new WhetstoneError(
        "CONTRACT_VIOLATION",
        `engine ${this.#url}: canary is labelled ${span}, expected ${label}`,
      );
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#agent.destroy();
  }

  async #call(call: ControlCall, signal: AbortSignal, body?: object): Promise<unknown> {
    const { method, path, timeoutMs } = call;
    this.#lead?.assert();
    const answer = await request(this.#url + path, {
      method,
      dispatcher: this.#agent,
      headersTimeout: timeoutMs,
      bodyTimeout: timeoutMs,
      signal: AbortSignal.any([signal, AbortSignal.timeout(timeoutMs)]),
      headers: {
        ...(this.#lead && { "whetstone-epoch": String(this.#lead.epoch) }),
        ...(body && { "content-type": "application/json" }),
      },
      ...(body && { body: JSON.stringify(body) }),
    });
    const text = await answer.body.text();
    if (answer.statusCode === 409 && text.includes("StaleEpoch"))
      throw new WhetstoneError("STALE_EPOCH", `engine ${this.#url}${path}: ${text.slice(0, 300)}`);
    if (call.optional === true && NO_ROUTE.has(answer.statusCode)) return undefined;
    if (answer.statusCode !== 200) {
      const message = `engine ${this.#url}${path}: ${answer.statusCode} ${text.slice(0, 300)}`;
      if (AWAY.has(answer.statusCode)) throw new WhetstoneError("UNAVAILABLE", message, { retry: "later" });
      throw new WhetstoneError("ENGINE_FAILED", message, { retry: "never" });
    }
    return text.startsWith("{") ? (JSON.parse(text) as unknown) : {};
  }
}

/** What is staged of a policy's record. */
type PublishedPolicy = Pick<PolicyRecord, "path" | "url" | "policyVersion" | "manifestDigest">;

interface ControlCall {
  readonly method: "GET" | "POST";
  readonly path: string;
  readonly timeoutMs: number;
  /** An engine without the route answers undefined. */
  readonly optional?: boolean;
}

interface ModelCard extends OwnInfo {
  readonly id: string;
  readonly root?: string | null;
  readonly parent?: string | null;
}

interface CanaryAnswer {
  choices: {
    logprobs?: { content: { logprob?: number }[] };
    weight_versions?: { version: string }[];
  }[];
}
