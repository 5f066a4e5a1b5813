// SPDX-License-Identifier: Apache-2.0
import { WhetstoneError } from "./errors.ts";

/** Ends a `switch` over a tagged union: a missing case fails to compile, and a value from outside fails here. */
export function assertNever(value: never, what = "value"): never {
  throw new WhetstoneError("INTERNAL", `unexpected ${what}: ${JSON.stringify(value)}`);
}
