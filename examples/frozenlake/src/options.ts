// SPDX-License-Identifier: Apache-2.0
import { parseArgs } from "node:util";

export interface QuickstartOptions {
  readonly seed: number;
  /** How many versions older than the trained one a token may be. */
  readonly lag: number;
  /** GRPO steps. */
  readonly steps: number;
  /** Held-out maps. */
  readonly heldOut: number;
  /** Cores for the trainer's arithmetic. */
  readonly trainerThreads: number;
  readonly data: string;
}

const usage = (steps: number): string =>
  `usage: quickstart.ts [--seed 1] [--lag 1] [--steps ${steps}] [--held-out 200] [--trainer-threads 1] [--data .whetstone/quickstart]`;

/** Input that cannot be used; the message is for the user. */
export class BadInput extends Error {}

/** @throws BadInput with the option's name and what it must be. */
export function parseOptions(argv: readonly string[], defaultSteps: number): QuickstartOptions {
  try {
    return parse(argv, defaultSteps);
  } catch (error) {
    throw new BadInput(`${(error as Error).message}\n${usage(defaultSteps)}`);
  }
}

function parse(argv: readonly string[], defaultSteps: number): QuickstartOptions {
  const { values } = parseArgs({
    args: [...argv],
    options: {
      seed: { type: "string", default: "1" },
      lag: { type: "string", default: "1" },
      steps: { type: "string", default: String(defaultSteps) },
      "held-out": { type: "string", default: "200" },
      // Of so small a model two share products that one is through with sooner, and the services need the other core.
      "trainer-threads": { type: "string", default: "1" },
      data: { type: "string", default: ".whetstone/quickstart" },
      help: { type: "boolean", default: false },
    },
  });
  if (values.help) {
    console.log(usage(defaultSteps));
    process.exit(0);
  }
  return {
    seed: integer("--seed", values.seed, 0, 1_000_000),
    lag: integer("--lag", values.lag, 0, 8),
    steps: integer("--steps", values.steps, 1, 100_000),
    heldOut: integer("--held-out", values["held-out"], 1, 100_000),
    trainerThreads: integer("--trainer-threads", values["trainer-threads"], 1, 256),
    data: values.data,
  };
}

/** @throws Error with the option's name and what it must be. */
export function integer(name: string, text: string, low: number, high: number): number {
  const value = Number(text);
  if (!Number.isInteger(value) || value < low || value > high)
    throw new Error(`${name}: must be a whole number from ${low} to ${high}, got "${text}"`);
  return value;
}
