// SPDX-License-Identifier: Apache-2.0
import { toJson } from "@bufbuild/protobuf";
import { ValueSchema } from "@bufbuild/protobuf/wkt";
import { deriveSeed, NoRoomError, raceSignal, WhetstoneError, withTimeout } from "@whetstone/core";
import type { Reset, SessionRequest, Step } from "@whetstone/proto/environments/v1/environments";
import {
  type Awaitable,
  type Environment,
  type RegisteredEnvironment,
  type Registry,
  resetEnvironment,
} from "@whetstone/sdk";
import type { Logger } from "@whetstone/telemetry";
import { type ArtifactCache, namesArtifacts } from "../artifacts/artifact-cache.ts";
import type { EnvRunnerConfig } from "../config.ts";
import type { ModuleEnvironments } from "../host/module-environments.ts";
import type { Drain } from "./drain.ts";
import { stepAndGrade } from "./grade.ts";
import type { RunnerMetrics, SessionEnd } from "./metrics.ts";
import { errorAnswer, type ErrorCode, observationAnswer, type SessionAnswer } from "./session-answers.ts";
import type { Slots } from "./slots.ts";

// S1: one environment a stream; however the stream ends, it is closed, once, within a bound (I9). S2: a session holds its
// slot until its environment is closed. S3: an answer of kind error or closed is the last. S4: while a step runs, the next
// request is read already, so that a cancel reaches it. S5: a session that is handed back says so, whatever it is doing.
// S6: an environment without room for another episode fails the call, as a lack of slots does: the episode waits at home.

export interface ServiceDeps {
  readonly registry: Registry<RegisteredEnvironment>;
  readonly modules: ModuleEnvironments;
  readonly artifacts: Pick<ArtifactCache, "use">;
  readonly slots: Slots;
  readonly drain: Drain;
  readonly config: Pick<EnvRunnerConfig, "sessionTimeoutMs" | "closeTimeoutMs" | "drainMs">;
  readonly metrics: RunnerMetrics;
  readonly logger: Logger;
}

type Requests = AsyncIterator<SessionRequest>;

/** One episode. */
export class EnvironmentSession {
  readonly #deps: ServiceDeps;
  readonly #call: AbortSignal;
  readonly #stop = new AbortController();
  #environment: Environment | undefined;
  #next: Promise<IteratorResult<SessionRequest>> | undefined;
  /** Files that its arguments name. */
  #held: Disposable | undefined;
  #end: SessionEnd = "left";

  /** @param call  aborts when the caller cancels or its deadline passes. */
  constructor(deps: ServiceDeps, call: AbortSignal) {
    this.#deps = deps;
    this.#call = call;
  }

  async *run(stream: AsyncIterable<SessionRequest>): AsyncGenerator<SessionAnswer, void, undefined> {
    if (this.#deps.drain.draining) {
      yield this.#failed(DRAINING);
      return;
    }
    using _slot = this.#deps.slots.take(); // S2
    const requests = stream[Symbol.asyncIterator]();
    using _limit = this.#limit(requests);
    try {
      for (;;) {
        const answer = await this.#turn(requests);
        if (answer === undefined) return;
        yield answer;
        if (answer.kind?.case !== "observation") return; // S3
      }
    } finally {
      await this.#close();
      this.#letGo();
      this.#deps.metrics.session(this.#end);
    }
  }

  /** @returns nothing at the stream's end */
  async #turn(requests: Requests): Promise<SessionAnswer | undefined> {
    try {
      const request = await this.#read(requests);
      return request && (await this.#answer(request, requests, this.#stop.signal));
    } catch (error) {
      if (this.#stop.signal.reason === HANDED_BACK) return this.#failed(DRAINING); // S5
      throw error;
    }
  }

  /** Stops the session at the call's end or the session's longest time, whichever is first. */
  #limit(requests: Requests): Disposable {
    const stop = (reason: unknown): void => {
      this.#stop.abort(reason);
      void requests.return?.(); // Ends a read that waits; cheaper than a race at every read.
    };
    const { sessionTimeoutMs } = this.#deps.config;
    const timer = setTimeout(() => {
      stop(new WhetstoneError("DEADLINE_EXCEEDED", `a session lasts at most ${sessionTimeoutMs} ms`));
    }, sessionTimeoutMs).unref();
    const onAbort = (): void => {
      stop(this.#call.reason);
    };
    this.#call.addEventListener("abort", onAbort, { once: true });
    const draining = this.#deps.drain.watch(() => {
      stop(HANDED_BACK);
    });
    return {
      [Symbol.dispose]: () => {
        draining[Symbol.dispose]();
        clearTimeout(timer);
        this.#call.removeEventListener("abort", onAbort);
      },
    };
  }

  async #read(requests: Requests): Promise<SessionRequest | undefined> {
    const pending = this.#next ?? requests.next();
    this.#next = undefined;
    const result = await pending;
    this.#stop.signal.throwIfAborted();
    return result.done === true ? undefined : result.value;
  }

  async #answer(request: SessionRequest, requests: Requests, signal: AbortSignal): Promise<SessionAnswer> {
    const { kind } = request;
    switch (kind.case) {
      case "reset":
        return this.#guard(requests, signal, (stop) => this.#reset(kind.value, stop));
      case "step":
        return this.#guard(requests, signal, (stop) => this.#step(kind.value, stop));
      case "close":
        await this.#close();
        this.#end = "closed";
        return { kind: { case: "closed", value: {} } };
      case "cancel":
        return this.#failed({ code: "CANCELLED", field: "", message: "cancelled as asked" });
      case undefined:
        throw new WhetstoneError("INVALID_ARGUMENT", "a session request needs one of reset, step, close, cancel");
    }
  }

  /** Runs a piece of the environment's work; what it throws is the answer. Work that is not async costs nothing here. */
  async #guard(
    requests: Requests,
    signal: AbortSignal,
    work: (stop: AbortSignal) => Awaitable<SessionAnswer>,
  ): Promise<SessionAnswer> {
    try {
      const result = work(signal);
      return result instanceof Promise ? await this.#listening(requests, signal, result) : result;
    } catch (error) {
      if (error instanceof CancelRequested) {
        this.#stop.abort(error); // Reaches the step that runs; its outcome has no reader any more.
        return this.#failed({ code: "CANCELLED", field: "", message: error.message });
      }
      if (signal.aborted || error instanceof ProtocolError) throw error;
      if (!(error instanceof NoRoomError)) return this.#failed(errorAnswer(error));
      this.#end = "full";
      throw error; // S6
    }
  }

  /** S4 */
  async #listening(requests: Requests, signal: AbortSignal, work: Promise<SessionAnswer>): Promise<SessionAnswer> {
    this.#next = requests.next();
    const cancelled = this.#next.then((next) => {
      if (next.done !== true && next.value.kind.case !== "cancel") return new Promise<never>(() => undefined);
      throw new CancelRequested("CANCELLED", "cancelled as asked");
    });
    return await raceSignal(Promise.race([work, cancelled]), signal);
  }

  #reset(reset: Reset, signal: AbortSignal): Awaitable<SessionAnswer> {
    if (this.#environment !== undefined) throw misuse("reset comes once, first");
    const { args = {} } = reset;
    if (!namesArtifacts(args)) return this.#begin(reset, signal);
    return this.#deps.artifacts.use(args, signal).then((held) => {
      this.#held = held;
      if (signal.aborted) this.#letGo(); // The session was closed meanwhile.
      signal.throwIfAborted();
      return this.#begin({ ...reset, args: held.args }, signal);
    });
  }

  #begin(reset: Reset, signal: AbortSignal): Awaitable<SessionAnswer> {
    const { kind, args = {}, module } = reset;
    const { registry, modules } = this.#deps;
    this.#environment = module === undefined ? registry.get(kind).create(args) : modules.open(reset);
    const result = resetEnvironment(this.#environment, { seed: safeSeed(reset.seed), signal });
    return result instanceof Promise ? result.then(observationAnswer) : observationAnswer(result);
  }

  #step({ action, data }: Step, signal: AbortSignal): Awaitable<SessionAnswer> {
    const environment = this.#environment;
    if (environment === undefined) throw misuse("step needs a reset first");
    this.#deps.metrics.step();
    const result = stepAndGrade(environment, data === undefined ? action : toJson(ValueSchema, data), { signal });
    return result instanceof Promise ? result.then(observationAnswer) : observationAnswer(result);
  }

  #failed(error: { code: ErrorCode; field: string; message: string }): SessionAnswer {
    this.#end = error.code;
    return { kind: { case: "error", value: error } };
  }

  #letGo(): void {
    this.#held?.[Symbol.dispose]();
    this.#held = undefined;
  }

  /** S1 */
  async #close(): Promise<void> {
    const environment = this.#environment;
    this.#environment = undefined;
    if (environment === undefined) return;
    try {
      const closing = environment.close();
      const { closeTimeoutMs: timeoutMs } = this.#deps.config;
      if (closing instanceof Promise) await withTimeout(() => closing, { timeoutMs });
    } catch (error) {
      this.#deps.logger.warn("environment_close_failed", { error });
    }
  }
}

const HANDED_BACK = new WhetstoneError("HANDED_BACK", "this env-runner goes; play the episode elsewhere");
const DRAINING = { code: "DRAINING", field: "", message: HANDED_BACK.message } as const;

/** The caller broke the protocol: its call fails; the environment is not to blame. */
class ProtocolError extends WhetstoneError {}

class CancelRequested extends WhetstoneError {}

function misuse(message: string): ProtocolError {
  return new ProtocolError("FAILED_PRECONDITION", `session: ${message}`);
}

function safeSeed(seed: bigint): number {
  return seed <= BigInt(Number.MAX_SAFE_INTEGER) ? Number(seed) : deriveSeed(seed);
}
