// SPDX-License-Identifier: Apache-2.0
// What crosses between the orchestrator and the child that plays a job's episodes.

import type { EnvironmentChoice } from "../environments/environments.ts";
import type { ReachedGateway } from "../play/gateway-replicas.ts";

export interface PlayerSettings {
  readonly code: Uint8Array;
  readonly digest: string;
  /** To one replica of the gateway at most. */
  readonly connections: number;
}

export interface ResetAsked extends EnvironmentChoice {
  /** Of the play, given by the child. */
  readonly session: number;
  /** The kind is the module's. */
  readonly isOwn: boolean;
  readonly seed: number;
  readonly remainingMs: number;
}

export interface StepAsked {
  readonly session: number;
  readonly action: unknown;
}

export interface CloseAsked {
  readonly session: number;
  /** Somebody may still be at work there: do not wait. */
  readonly isAborted: boolean;
}

export interface PlayCall {
  /** A RolloutTask in binary; the answer is an Episode in binary. */
  readonly task: Uint8Array;
  readonly attempt: number;
  readonly replay: number;
  readonly waitingMs: number;
  /** Those that take sessions now. */
  readonly gateways: readonly ReachedGateway[];
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
