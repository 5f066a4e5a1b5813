// SPDX-License-Identifier: Apache-2.0
import { DEFAULT_POOL } from "@whetstone/messaging";
import type { EnvironmentSpec } from "@whetstone/proto/jobs/v1/jobs";
import type { Runners } from "./runners.ts";

/** The env-runners of one name. */
export interface Pool {
  /** Some runner takes sessions. */
  readonly isOpen: boolean;
  setWeight(job: string, weight: number): void;
  /** Waits until one more episode of the job finds room; dispose it when the episode is over. */
  enter(job: string, signal: AbortSignal): Promise<Disposable>;
  /** Drops what is known about a job that is not here any more. */
  forget(job: string): void;
  /** Where an episode may be played; disposing says that it is over. Undefined: nowhere now. */
  lease(): (Runners & Disposable) | undefined;
  /** Sessions that this process may have. Undefined: not known. */
  slots(): Promise<number | undefined>;
  /** Calls after `isOpen` has changed; the result stops it. */
  onChange(listener: () => void): () => void;
}

export interface Pools {
  /** Of every job that plays here. */
  of(name: string): Pool;
}

export function poolOf(environment: { readonly pool?: EnvironmentSpec["pool"] | undefined } | undefined): string {
  return environment?.pool ?? DEFAULT_POOL;
}
