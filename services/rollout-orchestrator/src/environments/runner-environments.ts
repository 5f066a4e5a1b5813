// SPDX-License-Identifier: Apache-2.0
import type { Environment, EpisodeRun } from "@whetstone/sdk";
import type { EnvironmentModule } from "./environment-module.ts";
import type { EnvironmentChoice, Environments } from "./environments.ts";
import { RemoteEnvironment } from "./remote-environment.ts";
import { RunnerAccess } from "./runner-access.ts";
import type { RunnerClients } from "./runner-clients.ts";
import type { Runners } from "./runners.ts";

/** Those of env-runners, for one play. */
export class RunnerEnvironments implements Environments {
  readonly #access: RunnerAccess;
  readonly #job: string;

  constructor(clients: RunnerClients, runners: Runners, job: string) {
    this.#access = new RunnerAccess(clients, runners);
    this.#job = job;
  }

  get moved(): AbortSignal {
    return this.#access.moved;
  }

  /** @param module  where the kind comes from; absent: built in */
  open(choice: EnvironmentChoice, run: EpisodeRun, module?: EnvironmentModule): Environment {
    return new RemoteEnvironment(this.#access, { ...choice, job: this.#job, module }, run);
  }
}
