// SPDX-License-Identifier: Apache-2.0
import { createHash } from "node:crypto";

/** Largest module, in bytes of UTF-8; the contract's bound. */
export const MAX_CODE_BYTES = 16 * 1024 * 1024;

/** A module by the name that everyone knows it by. */
export interface ModuleCode {
  /** SHA-256 of the code, lower-case hex. */
  readonly digest: string;
  /** Source text in UTF-8. */
  readonly code: Uint8Array;
}

export function digestOf(code: Uint8Array): string {
  return createHash("sha256").update(code).digest("hex");
}

/** Why this code cannot stand for this digest. Undefined: it does. */
export function codeFault(digest: string, code: Uint8Array): string | undefined {
  if (code.length > MAX_CODE_BYTES) return `the code has ${code.length} bytes; at most ${MAX_CODE_BYTES} are taken`;
  const found = digestOf(code);
  return found === digest ? undefined : `the code's SHA-256 is ${found}, not ${digest}`;
}
