// SPDX-License-Identifier: Apache-2.0
import { randomUUID } from "node:crypto";
import { boundedText, ConfigError, Deadline, exponentialBackoff, sleep, WhetstoneError } from "@whetstone/core";
import {
  BaseEnv,
  EpisodeError,
  type ResetOptions,
  type ResetResult,
  type StepOptions,
  type StepResult,
} from "@whetstone/sdk";
import { type ActionReader, actionReader } from "./action-reader.ts";
import { OpenEnvConnection } from "./connection.ts";
import { type ActionSchema, type ObservationData, SchemaAnswer, type ServerMessage } from "./wire.ts";

export interface OpenEnvOptions {
  /** Of the server: "http://127.0.0.1:8000". */
  readonly url: string;
  readonly headers?: Readonly<Record<string, string>>;
  /** Beside seed and episode_id, for the server's reset. */
  readonly reset?: Readonly<Record<string, unknown>>;
  /** For the server's reset. Default: the episode's. */
  readonly seed?: number | undefined;
  /** Field of the action that takes an agent's text. Default: the only one of the server's schema. */
  readonly actionField?: string | undefined;
  /** Field of the observation that is shown. Default: the only one, else all of it as JSON. */
  readonly observationField?: string | undefined;
  /** Milliseconds to connect and reset, waiting for a free session included. */
  readonly startTimeoutMs?: number;
  /** Milliseconds of one step. */
  readonly callTimeoutMs?: number;
  readonly maxMessageBytes?: number;
}

const DEFAULTS = {
  headers: {},
  reset: {},
  startTimeoutMs: 30_000,
  callTimeoutMs: 60_000,
  maxMessageBytes: 4 * 2 ** 20,
};

/** Servers seed NumPy and the like, which take no more. */
const SEEDS = 2 ** 31;
const CAPACITY_BACKOFF = exponentialBackoff({ initialMs: 50, maxMs: 1_000 });
const MAX_MESSAGE = 600;

/**
 * An environment behind an OpenEnv server: one connection an episode. An action that does not fit the server's schema is the
 * policy's fault, and the episode goes on. A server that is away, hangs or lies is ENVIRONMENT, a last step without a reward
 * GRADER: neither is ever a reward of 0 (I6).
 */
export class OpenEnvEnvironment extends BaseEnv {
  readonly #options: OpenEnvOptions & typeof DEFAULTS;
  #connection: OpenEnvConnection | undefined;
  #readAction: ActionReader | undefined;

  constructor(options: OpenEnvOptions) {
    super();
    this.#options = { ...DEFAULTS, ...options };
  }

  async reset({ seed, signal }: ResetOptions): Promise<ResetResult> {
    using deadline = Deadline.after(this.#options.startTimeoutMs, signal);
    this.#readAction = actionReader(
      await this.#during("schema", () => this.#schema(deadline), signal),
      this.#options.actionField,
    );
    const data = { ...this.#options.reset, seed: (this.#options.seed ?? seed) % SEEDS, episode_id: randomUUID() };
    const message = await this.#during("reset", () => this.#openAndReset(data, deadline), signal);
    if (message.type === "error") throw this.#resetRefused(message.data);
    if (message.data.done) throw this.#failed("reset", "it said that the episode is over already");
    return { observation: this.#seen(message.data, "args.observationField"), info: {} };
  }

  async step(action: unknown, { signal }: StepOptions): Promise<StepResult> {
    const connection = this.#connection;
    if (connection === undefined || this.#readAction === undefined)
      throw new WhetstoneError("FAILED_PRECONDITION", "step needs a reset first");
    const read = this.#readAction(action);
    if ("refused" in read) return invalid(read.refused);
    using deadline = Deadline.after(this.#options.callTimeoutMs, signal);
    const message = await this.#during(
      "step",
      () => connection.ask({ type: "step", data: read.action }, deadline),
      signal,
    );
    if (message.type === "observation") return this.#result(message.data);
    const { code, message: said, errors } = message.data;
    if (code !== "VALIDATION_ERROR") throw this.#failed("step", `${code}: ${said}`);
    const reasons = errors.map(({ loc, msg }) => [...loc, msg].join(": "));
    return invalid([said, ...reasons].join("; ").slice(0, MAX_MESSAGE));
  }

  override async close(): Promise<void> {
    const connection = this.#connection;
    this.#connection = undefined;
    await connection?.[Symbol.asyncDispose]();
  }

  /** Cuts the connection without a word, as a client that dies. */
  abandon(): void {
    this.#connection?.cut();
    this.#connection = undefined;
  }

  /** A server that is full is asked again until the time is up. */
  async #openAndReset(data: Record<string, unknown>, deadline: Deadline): Promise<ServerMessage> {
    for (let round = 1; ; round += 1) {
      this.#connection = await OpenEnvConnection.open(this.#options, deadline);
      const answer = await this.#connection.ask({ type: "reset", data }, deadline);
      if (answer.type !== "error" || answer.data.code !== "CAPACITY_REACHED") return answer;
      await this.close();
      await sleep(CAPACITY_BACKOFF(round), deadline.signal);
    }
  }

  async #schema(deadline: Deadline): Promise<ActionSchema> {
    const { url, headers, maxMessageBytes } = this.#options;
    const address = `${url.replace(/^ws/u, "http").replace(/\/+$/u, "")}/schema`;
    const response = await fetch(address, { headers, signal: deadline.signal, redirect: "error" });
    const text = await boundedText(response, maxMessageBytes);
    if (!response.ok) throw new Error(`it answered ${response.status}`);
    return SchemaAnswer.parse(JSON.parse(text)).action;
  }

  #result(data: ObservationData): StepResult {
    if (data.done && data.reward === null) {
      const message = `OpenEnv server ${this.#options.url}: it ended the episode without a reward`;
      throw new EpisodeError("GRADER", message);
    }
    const reward = data.reward ?? undefined;
    // The protocol has one word for both ends.
    return { observation: this.#seen(data), reward, terminated: data.done, truncated: false, info: {} };
  }

  /** @param path  of the argument that is to blame where the field is missing; absent: the server is */
  #seen({ observation }: ObservationData, path?: string): unknown {
    const fields = Object.keys(observation);
    const { observationField } = this.#options;
    if (observationField === undefined) {
      const [only] = fields.length === 1 ? Object.values(observation) : [];
      return only ?? observation;
    }
    if (fields.includes(observationField)) return observation[observationField];
    const reason = `the server's observation has no "${observationField}"; it has ${fields.join(", ") || "nothing"}`;
    throw path === undefined
      ? this.#failed("step", reason)
      : new ConfigError([{ path, reason }], { code: "TASK_INVALID" });
  }

  async #during<T>(what: string, work: () => Promise<T>, signal: AbortSignal | undefined): Promise<T> {
    try {
      return await work();
    } catch (error) {
      if (signal?.aborted === true) throw error; // Nobody waits any more: that is not the server's fault.
      throw this.#failed(what, reasonOf(error), error);
    }
  }

  #resetRefused({ code, message }: { readonly code: string; readonly message: string }): Error {
    if (code !== "VALIDATION_ERROR") return this.#failed("reset", `${code}: ${message}`);
    return new ConfigError([{ path: "args.reset", reason: message.slice(0, MAX_MESSAGE) }], { code: "TASK_INVALID" });
  }

  #failed(during: string, reason: string, cause?: unknown): EpisodeError {
    const message = `OpenEnv server ${this.#options.url}, ${during}: ${reason}`;
    return new EpisodeError("ENVIRONMENT", message.slice(0, MAX_MESSAGE), { cause });
  }
}

function invalid(reason: string): StepResult {
  return { observation: `Error: ${reason}`, reward: 0, terminated: false, truncated: false, info: { invalid: true } };
}

function reasonOf(error: unknown): string {
  const { cause } = error as { cause?: unknown };
  return WhetstoneError.from(cause ?? error).message;
}
