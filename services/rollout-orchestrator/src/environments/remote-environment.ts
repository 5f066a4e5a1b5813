// SPDX-License-Identifier: Apache-2.0
import { fromJson, type JsonObject, type JsonValue, type MessageInitShape, toJson } from "@bufbuild/protobuf";
import { ValueSchema } from "@bufbuild/protobuf/wkt";
import { abortReason, Deadline, exponentialBackoff, sleep, WhetstoneError } from "@whetstone/core";
import {
  type EnvironmentError,
  type Observation,
  type SessionRequestSchema,
  type SessionResponse,
} from "@whetstone/proto/environments/v1/environments";
import {
  type Environment,
  EpisodeError,
  type EpisodeRun,
  type FailureClass,
  type ImagePart,
  type Info,
  type ResetOptions,
  type ResetResult,
  type StepResult,
} from "@whetstone/sdk";
import { type EnvironmentModule, ModuleWanted } from "./environment-module.ts";
import { RequestChannel } from "./request-channel.ts";
import type { HeldClient } from "./runner-clients.ts";
import type { RunnerAccess } from "./runner-access.ts";

type Request = MessageInitShape<typeof SessionRequestSchema>;

/** The hop's deadline ends a little after ours, so that ours speaks first; it is there for when we are gone. */
const GRACE_MS = 1_000;
const ROOM_BACKOFF = exponentialBackoff({ initialMs: 50, maxMs: 1_000 });
/** How long it waits for room before its episode is handed back, and at most for this share of the time that the episode has. */
const ROOM_MS = 5_000;
const ROOM_SHARE = 0.1;

export interface WantedEnvironment {
  readonly kind: string;
  readonly args: Info;
  readonly job: string;
  /** Where the kind comes from. Absent: built in. */
  readonly module?: EnvironmentModule | undefined;
}

/** This env-runner is about to go. */
class DrainingError extends WhetstoneError {}

/** An environment behind EnvironmentService: one stream an episode, over a connection that is shared. */
export class RemoteEnvironment implements Environment {
  readonly #runners: RunnerAccess;
  readonly #wanted: WantedEnvironment;
  readonly #run: EpisodeRun;
  #stream: OpenStream | undefined;

  constructor(runners: RunnerAccess, wanted: WantedEnvironment, run: EpisodeRun) {
    this.#runners = runners;
    this.#wanted = wanted;
    this.#run = run;
  }

  /** No room is back pressure, not failure: it waits a little, then the episode is handed back, and its time begins anew. */
  async reset({ seed }: ResetOptions): Promise<ResetResult> {
    const runners = this.#runners;
    const { signal } = this.#run;
    using patience = Deadline.after(Math.min(ROOM_MS, this.#run.remainingMs() * ROOM_SHARE), signal);
    for (let round = 1; ; round += 1) {
      for (const address of runners.addresses) {
        const result = await this.#tryAt(address, BigInt(seed));
        if (result !== undefined) return result;
      }
      if (runners.addresses.length === 0) throw runners.handBack("no env-runner takes it now", "safe");
      await sleep(ROOM_BACKOFF(round), patience.signal).catch(() => undefined);
      if (signal.aborted) throw abortReason(signal);
      if (patience.signal.aborted) throw runners.handBack("no env-runner has room for it now", "later");
    }
  }

  /** Undefined: it has no room, or is gone or about to go. */
  async #tryAt(address: string, seed: bigint): Promise<ResetResult | undefined> {
    const { module } = this.#wanted;
    const send = (code?: Uint8Array): Promise<ResetResult> => this.#reset(address, seed, code);
    try {
      return await (module === undefined ? send() : module.ask(address, send));
    } catch (error) {
      if (error instanceof DrainingError || this.#runners.isAway(error)) this.#runners.drop(address);
      else if (!(error instanceof WhetstoneError && error.code === "RESOURCE_EXHAUSTED")) throw error;
      return undefined;
    }
  }

  async #reset(address: string, seed: bigint, code: Uint8Array | undefined): Promise<ResetResult> {
    const { kind, args, job, module } = this.#wanted;
    const own = module && { job, module: { digest: module.digest, ...(code && { code }), ...sandboxOf(module) } };
    this.#stream = openStream(this.#runners.hold(address), this.#run);
    const value = { kind, args: args as JsonObject, seed, episodeId: this.#run.id, ...own };
    return resetResult(await ask(this.#stream, { kind: { case: "reset", value } }));
  }

  async step(action: unknown): Promise<StepResult> {
    if (this.#stream === undefined) throw new WhetstoneError("FAILED_PRECONDITION", "step needs a reset first");
    const value =
      typeof action === "string" ? { action } : { data: fromJson(ValueSchema, (action ?? null) as JsonValue) };
    try {
      return stepResult(await ask(this.#stream, { kind: { case: "step", value } }));
    } catch (error) {
      if (error instanceof DrainingError) throw this.#runners.handBack(error.message, "safe");
      throw error;
    }
  }

  /** The stream's end closes the environment; waits until the server has ended its side, too. */
  async close(): Promise<void> {
    const stream = this.#stream;
    this.#stream = undefined;
    if (stream === undefined || stream.finished) return;
    using _held = stream.held;
    stream.requests.end();
    if (this.#run.signal.aborted)
      stream.abort.abort(); // Somebody may still be at work there: cancel, do not wait.
    else await stream.answers.next();
  }
}

function sandboxOf({ sandbox }: EnvironmentModule) {
  return sandbox === undefined ? {} : { sandbox };
}

interface OpenStream {
  readonly held: HeldClient;
  readonly requests: RequestChannel<Request>;
  readonly answers: AsyncIterator<SessionResponse, undefined>;
  readonly abort: AbortController;
  /** The server has ended it. */
  finished: boolean;
}

function openStream(held: HeldClient, run: EpisodeRun): OpenStream {
  const requests = new RequestChannel<Request>();
  const abort = new AbortController();
  const deadlineMs = run.remainingMs() + GRACE_MS;
  const session = held.client.session(requests, { signal: abort.signal, deadlineMs });
  const answers = session[Symbol.asyncIterator]() as AsyncIterator<SessionResponse, undefined>;
  return { held, requests, answers, abort, finished: false };
}

async function ask(stream: OpenStream, request: Request): Promise<Observation> {
  stream.requests.push(request);
  let finished = true;
  try {
    const next = await stream.answers.next();
    if (next.done === true) throw new WhetstoneError("UNAVAILABLE", "the environment's stream ended without an answer");
    const { kind } = next.value;
    if (kind.case === "error") throw failed(kind.value);
    if (kind.case !== "observation") throw new WhetstoneError("CONTRACT_VIOLATION", `unexpected answer: ${kind.case}`);
    finished = false;
    return kind.value;
  } finally {
    stream.finished = finished;
    if (finished) stream.held[Symbol.dispose]();
  }
}

const CLASS_OF_CODE: Readonly<Record<string, FailureClass>> = {
  TASK: "TASK",
  ENVIRONMENT: "ENVIRONMENT",
  GRADER: "GRADER",
};

function failed({ code, field, message }: EnvironmentError): WhetstoneError {
  if (code === "CANCELLED") return new WhetstoneError("CANCELLED", message);
  if (code === "MODULE") return new ModuleWanted(message);
  if (code === "DRAINING") return new DrainingError("HANDED_BACK", message);
  if (code === "CRASHED") return new EpisodeError("ENVIRONMENT", message, { code: "MODULE_CRASHED" });
  return new EpisodeError(CLASS_OF_CODE[code] ?? "ENVIRONMENT", field === "" ? message : `${field}: ${message}`);
}

function resetResult(observation: Observation): ResetResult {
  return { observation: seen(observation, "reset"), ...imagesOf(observation), info: observation.info ?? {} };
}

function stepResult(observation: Observation): StepResult {
  const { reward, terminated, truncated, info = {} } = observation;
  return { observation: seen(observation, "step"), ...imagesOf(observation), reward, terminated, truncated, info };
}

/** Whoever asked checks them, as it does all that an environment says. */
function imagesOf({ images }: Observation): Pick<StepResult, "images"> {
  return images.length === 0 ? {} : { images: images as unknown as readonly ImagePart[] };
}

/** JSON has no NaN, but a value of the contract may: of environments in other languages. */
function seen({ text, data }: Observation, method: string): unknown {
  try {
    return data === undefined ? text : toJson(ValueSchema, data);
  } catch (error) {
    const message = `the environment's ${method}() returned an observation that is no JSON value`;
    throw new EpisodeError("ENVIRONMENT", `${message}: ${WhetstoneError.from(error).message}`, { cause: error });
  }
}
