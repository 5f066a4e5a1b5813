// SPDX-License-Identifier: Apache-2.0

/** Why a call does not pass to an engine, as its error object says it. */
export interface Refusal {
  readonly status: number;
  readonly type: string;
  readonly message: string;
}
