// SPDX-License-Identifier: Apache-2.0

export interface ChildLimits {
  /** Resident memory in MiB beyond which it is killed (looked at four times a second, Linux only). Its heap gets three quarters. */
  readonly memoryMiB: number;
  /** Without an answer for this long it counts as hanging, milliseconds. */
  readonly hangMs: number;
  /** How long loading the module may take, milliseconds. */
  readonly startMs: number;
}

export const DEFAULT_LIMITS: ChildLimits = { memoryMiB: 2048, hangMs: 10_000, startMs: 60_000 };
