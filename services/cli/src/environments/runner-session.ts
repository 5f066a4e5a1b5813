// SPDX-License-Identifier: Apache-2.0
/** One episode straight at an env-runner: a request, an answer. */
import { fromJson, type JsonObject, type JsonValue, type MessageInitShape, toJson } from "@bufbuild/protobuf";
import { ValueSchema } from "@bufbuild/protobuf/wkt";
import { withTimeout } from "@whetstone/core";
import type {
  EnvironmentService,
  Observation,
  SessionRequestSchema,
  SessionResponse,
} from "@whetstone/proto/environments/v1/environments";
import type { RpcClient } from "@whetstone/rpc";
import type { Environment, ResetOptions, ResetResult, StepResult } from "@whetstone/sdk";

import { badInput, CliError } from "../cli-error.ts";

export type RunnerClient = RpcClient<typeof EnvironmentService>;
type Request = MessageInitShape<typeof SessionRequestSchema>;

export interface SessionOptions {
  readonly kind: string;
  /** Those of a job with the task's payload over them. */
  readonly args: JsonObject;
  /** For the whole episode, in milliseconds. */
  readonly deadlineMs: number;
  readonly signal: AbortSignal;
}

/** How long the other side may take to end what was ended here. */
const END_MS = 10_000;

export class RunnerSession {
  readonly #options: SessionOptions;
  readonly #abort = new AbortController();
  readonly #requests: WritableStreamDefaultWriter<Request>;
  readonly #answers: AsyncIterator<SessionResponse, undefined>;
  /** While somebody waits for an answer: one reads at a time. */
  #asked: Promise<unknown> | undefined;

  constructor(client: RunnerClient, options: SessionOptions) {
    const { readable, writable } = new TransformStream<Request, Request>({}, { highWaterMark: 2 });
    const signal = AbortSignal.any([options.signal, this.#abort.signal]);
    this.#options = options;
    this.#requests = writable.getWriter();
    const answers = client.session(readable, { signal, deadlineMs: options.deadlineMs });
    this.#answers = answers[Symbol.asyncIterator]() as AsyncIterator<SessionResponse, undefined>;
  }

  /** @throws CliError with what the environment says */
  reset(seed: bigint): Promise<Observation> {
    const { kind, args } = this.#options;
    return this.#ask({ kind: { case: "reset", value: { kind, args, seed, episodeId: "trial" } } });
  }

  /** @throws CliError with what the environment says */
  step(action: unknown): Promise<Observation> {
    const value =
      typeof action === "string" ? { action } : { data: fromJson(ValueSchema, (action ?? null) as JsonValue) };
    return this.#ask({ kind: { case: "step", value } });
  }

  /** Ends when the environment is closed; a step that runs is stopped. */
  async close(): Promise<void> {
    this.#send({ kind: { case: this.#asked === undefined ? "close" : "cancel", value: {} } });
    await this.#requests.close().catch(() => {}); // The stream's end closes the environment, too.
    // Whatever comes until the end, also of a step that nobody waits for.
    const rest = (async () => {
      await this.#asked;
      while ((await this.#answers.next()).done !== true);
    })().catch(() => {});
    await withTimeout(() => rest, { timeoutMs: END_MS }).catch(() => this.abandon());
  }

  /** As a client that dies. */
  abandon(): void {
    this.#abort.abort();
  }

  #ask(request: Request): Promise<Observation> {
    this.#send(request);
    const answer = this.#answers.next();
    this.#asked = answer.catch(() => {}).finally(() => (this.#asked = undefined));
    return answer.then(observationOf);
  }

  #send(request: Request): void {
    void this.#requests.write(request).catch(() => {}); // A stream that broke says so in its answers.
  }
}

/** The same as an environment of the SDK's. */
export class RunnerEnvironment implements Environment {
  readonly #session: RunnerSession;

  constructor(client: RunnerClient, options: SessionOptions) {
    this.#session = new RunnerSession(client, options);
  }

  async reset({ seed }: Pick<ResetOptions, "seed">): Promise<ResetResult> {
    const observation = await this.#session.reset(BigInt(seed));
    return { observation: seenOf(observation), info: observation.info ?? {} };
  }

  async step(action: unknown): Promise<StepResult> {
    const observation = await this.#session.step(action);
    const { reward, terminated, truncated, info = {} } = observation;
    return { observation: seenOf(observation), reward, terminated, truncated, info };
  }

  close(): Promise<void> {
    return this.#session.close();
  }

  abandon(): void {
    this.#session.abandon();
  }
}

function seenOf({ text, data }: Observation): unknown {
  return data === undefined ? text : toJson(ValueSchema, data);
}

function observationOf({ value }: IteratorResult<SessionResponse, undefined>): Observation {
  const kind = value?.kind;
  if (kind?.case === "observation") return kind.value;
  if (kind?.case !== "error")
    throw new CliError("UNAVAILABLE", "the env-runner ended the episode without an answer; `whet logs` says more");
  const { code, field, message } = kind.value;
  if (code === "TASK") throw badInput([{ path: field || "args", reason: message }]);
  throw new CliError(code, message);
}
