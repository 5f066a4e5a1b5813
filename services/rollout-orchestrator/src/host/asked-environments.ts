// SPDX-License-Identifier: Apache-2.0
import { WhetstoneError } from "@whetstone/core";
import type { CallScope } from "@whetstone/modules/child";
import type { Environment, EpisodeRun, ResetOptions, ResetResult, StepResult } from "@whetstone/sdk";
import type { EnvironmentChoice, Environments } from "../environments/environments.ts";
import type { CloseAsked, ResetAsked, StepAsked } from "./play-call.ts";

/** Environments as a job's code has them: it reaches no env-runner, and asks the orchestrator. */
export class AskedEnvironments implements Environments {
  readonly #ask: CallScope["ask"];
  readonly #ownKinds: ReadonlySet<string>;
  readonly #moved = new AbortController();
  #opened = 0;

  /** @param ownKinds  environments of the job's module */
  constructor(ask: CallScope["ask"], ownKinds: ReadonlySet<string>) {
    this.#ask = ask;
    this.#ownKinds = ownKinds;
  }

  get moved(): AbortSignal {
    return this.#moved.signal;
  }

  open(choice: EnvironmentChoice, run: EpisodeRun): Environment {
    const session = (this.#opened += 1);
    const isOwn = this.#ownKinds.has(choice.kind);
    return {
      reset: async ({ seed }: ResetOptions) => {
        const asked: ResetAsked = { ...choice, session, isOwn, seed, remainingMs: run.remainingMs() };
        return (await this.#asked("reset", asked)) as ResetResult;
      },
      step: async (action: unknown) => {
        const asked: StepAsked = { session, action };
        return (await this.#asked("step", asked)) as StepResult;
      },
      close: async () => {
        const asked: CloseAsked = { session, isAborted: run.signal.aborted };
        await this.#asked("close", asked);
      },
    };
  }

  async #asked(method: string, payload: unknown): Promise<unknown> {
    try {
      return await this.#ask(method, payload);
    } catch (error) {
      if (error instanceof WhetstoneError && error.code === "HANDED_BACK") this.#moved.abort(error);
      throw error;
    }
  }
}
