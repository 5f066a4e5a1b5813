// SPDX-License-Identifier: Apache-2.0
import type { Environment, EpisodeRun, Info } from "@whetstone/sdk";

export interface EnvironmentChoice {
  readonly kind: string;
  readonly args: Info;
}

/** Where one play gets its environments from. */
export interface Environments {
  /** Aborts with HANDED_BACK: this play is void, the episode is played elsewhere. */
  readonly moved: AbortSignal;
  open(choice: EnvironmentChoice, run: EpisodeRun): Environment;
}
