// SPDX-License-Identifier: Apache-2.0
import { WhetstoneError } from "@whetstone/core";
import type { StoredSandboxPool } from "../operator/sandbox-pool/schema.ts";

export interface ClaimRequest {
  /** Chosen by whoever claims. */
  readonly id: string;
  readonly pool: string;
  readonly ttlMs: number;
  /** Of the certificate that it will show. */
  readonly fingerprint: string;
  /** Name of the pod that it runs in, and its process. */
  readonly owner: string;
  readonly instance: string;
  /** Another is claimed right after it. */
  readonly withAnother: boolean;
  /** The claim that this is the other of, or "". */
  readonly beside: string;
}

/** @throws FAILED_PRECONDITION for what could be waited for without end */
export function requireRoom(
  { metadata: { name }, spec: { max } }: StoredSandboxPool,
  { withAnother }: ClaimRequest,
): void {
  if (!withAnother || max >= 2) return;
  const what = `sandbox pool "${name}" has at most ${max} pod, and two at once are needed: make its max larger`;
  throw new WhetstoneError("FAILED_PRECONDITION", what);
}
