// SPDX-License-Identifier: Apache-2.0
import { runWhet } from "../support/whet.ts";

export const RELEASE = "whetstone";
export const NAMESPACE = process.env["E2E_NAMESPACE"] ?? "whetstone-e2e";

/** `whet --context …` as a user types it. */
export function whet(...args: string[]): ReturnType<typeof runWhet> {
  return runWhet(...args, "--context", "current", "--namespace", NAMESPACE, "--release", RELEASE);
}
