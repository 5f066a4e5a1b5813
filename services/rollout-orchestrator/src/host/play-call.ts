// SPDX-License-Identifier: Apache-2.0
// What crosses between the orchestrator and the child that plays a job's episodes.

import type { Runners } from "../environments/runners.ts";

export interface PlayerSettings {
  readonly code: Uint8Array;
  readonly digest: string;
  readonly gatewayUrl: string;
  /** The gateway as agents with clients of their own reach it. */
  readonly relayUrl?: string | undefined;
  readonly tlsPath?: string | undefined;
  readonly connections: number;
}

export interface PlayCall {
  /** A RolloutTask in binary; the answer is an Episode in binary. */
  readonly task: Uint8Array;
  readonly attempt: number;
  readonly runners: Runners;
  readonly replay: number;
  readonly waitingMs: number;
  /** An Episode in binary, see Delivery. Absent: a model is asked. */
  readonly recorded?: Uint8Array | undefined;
  /** API keys of the task's roles, by the variable's name: the child has no environment of ours. */
  readonly keys: Readonly<Record<string, string>>;
}

export interface KindDescription {
  readonly kind: string;
  readonly description: string;
  readonly argsSchemaJson: string;
  readonly form: number;
}
