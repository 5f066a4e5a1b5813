// SPDX-License-Identifier: Apache-2.0
import { WhetstoneError } from "@whetstone/core";

/**
 * The word that the trainer has for what ended the job: "LogprobMismatch", "NonFiniteWeights". The same batch would end it
 * again, so it is not started once more. Undefined: it has none.
 */
export function trainersReason(error: unknown): string | undefined {
  if (!(error instanceof WhetstoneError)) return undefined;
  const { reason } = error.context;
  return typeof reason === "string" && /^([A-Z][a-z]+)+$/.test(reason) ? reason : undefined;
}
