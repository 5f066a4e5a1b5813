// SPDX-License-Identifier: Apache-2.0
import { type Deadline, WhetstoneError } from "@whetstone/core";
import type { Environment } from "@whetstone/sdk";
import type { EnvironmentModule } from "../environments/environment-module.ts";
import type { RunnerEnvironments } from "../environments/runner-environments.ts";
import type { CloseAsked, ResetAsked, StepAsked } from "./play-call.ts";

export interface ServedOptions {
  readonly environments: RunnerEnvironments;
  readonly module: EnvironmentModule;
  readonly episodeId: string;
  /** Of the play. */
  readonly deadline: Deadline;
}

interface Open {
  readonly environment: Environment;
  readonly abort: AbortController;
}

/** More at once than any workflow needs. */
const OPEN_AT_MOST = 256;

/** The environments of one play whose code runs in a process of its own. It may ask for nothing else. */
export class ServedEnvironments implements AsyncDisposable {
  readonly #options: ServedOptions;
  readonly #open = new Map<number, Open>();

  constructor(options: ServedOptions) {
    this.#options = options;
  }

  /** Answers the code. @throws what the environment throws */
  readonly serve = async (method: string, payload: unknown): Promise<unknown> => {
    switch (method) {
      case "reset":
        return await this.#reset(payload as ResetAsked);
      case "step":
        return await this.#step(payload as StepAsked);
      case "close":
        return await this.#close(payload as CloseAsked);
      default:
        throw new WhetstoneError("UNIMPLEMENTED", `nothing answers "${method}"`);
    }
  };

  /** Whatever the code left open. */
  async [Symbol.asyncDispose](): Promise<void> {
    const left = [...this.#open.keys()];
    await Promise.allSettled(left.map((session) => this.#close({ session, isAborted: true })));
  }

  async #reset({ session, kind, args, isOwn, seed, remainingMs }: ResetAsked): Promise<unknown> {
    const { environments, module, episodeId, deadline } = this.#options;
    if (this.#open.size >= OPEN_AT_MOST || this.#open.has(session))
      throw new WhetstoneError(
        "RESOURCE_EXHAUSTED",
        `an episode may have ${OPEN_AT_MOST} environments, each reset once`,
      );
    const abort = new AbortController();
    const endsAt = performance.now() + Math.min(remainingMs, deadline.remainingMs());
    const signal = AbortSignal.any([abort.signal, deadline.signal]);
    const run = {
      id: episodeId,
      task: { id: "", payload: {} },
      seed,
      try: 1,
      signal,
      remainingMs: () => Math.max(0, endsAt - performance.now()),
    };
    const environment = environments.open({ kind, args }, run, isOwn ? module : undefined);
    this.#open.set(session, { environment, abort });
    return await environment.reset({ seed, signal });
  }

  async #step({ session, action }: StepAsked): Promise<unknown> {
    const open = this.#open.get(session);
    if (open === undefined) throw new WhetstoneError("FAILED_PRECONDITION", "step needs a reset first");
    return await open.environment.step(action, { signal: open.abort.signal });
  }

  async #close({ session, isAborted }: CloseAsked): Promise<void> {
    const open = this.#open.get(session);
    this.#open.delete(session);
    if (isAborted) open?.abort.abort(new WhetstoneError("CANCELLED", "the episode goes on without its environment"));
    await open?.environment.close();
  }
}
