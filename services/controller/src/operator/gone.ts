// SPDX-License-Identifier: Apache-2.0
/** What a change of an object may meet, and what is no failure then. */
import { WhetstoneError } from "@whetstone/core";

export function unlessGone(error: unknown): undefined {
  if (WhetstoneError.from(error).code === "NOT_FOUND") return undefined;
  throw error;
}

/** Gone already, or another one of its name has come. */
export function unlessOther(error: unknown): undefined {
  if (WhetstoneError.from(error).code === "CONFLICT") return undefined;
  return unlessGone(error);
}
