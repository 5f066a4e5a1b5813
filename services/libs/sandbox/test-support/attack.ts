// SPDX-License-Identifier: Apache-2.0
import type { Guard } from "../src/process/guards.ts";
import type { SandboxNetwork } from "../src/sandbox.ts";

/**
 * A Python program that prints ESCAPED when it got what it wanted, and the guards that stop it: taken away together, they let it
 * through.
 */
export interface Attack {
  readonly name: string;
  readonly guards: readonly Guard[];
  readonly script: string;
  readonly network?: SandboxNetwork;
}
