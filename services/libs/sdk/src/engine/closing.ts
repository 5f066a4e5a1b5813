// SPDX-License-Identifier: Apache-2.0
import { withTimeout } from "@whetstone/core";
import type { Environment } from "../base-env.ts";
import { classify, type Failure, NO_FAILURE } from "../failure.ts";

/** Bounded, and outside the episode's deadline: what ran out of time must be closed, too. Never throws. */
export async function closeWithin(environment: Pick<Environment, "close">, timeoutMs: number): Promise<Failure> {
  try {
    const closing = environment.close();
    if (closing instanceof Promise) await withTimeout(() => closing, { timeoutMs });
    return NO_FAILURE;
  } catch (error) {
    return classify(error, "close");
  }
}
