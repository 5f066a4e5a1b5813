// SPDX-License-Identifier: Apache-2.0
import { createRng, deriveSeed, parseOrThrow, type Rng, WhetstoneError } from "@whetstone/core";
import { z } from "zod";
import { BaseEnv, type ResetOptions, type ResetResult, type StepResult } from "../base-env.ts";
import { defineEnvironment } from "../define.ts";
import { isDirection, isInHole, isOnGoal, type LakeState, move, startGame } from "./game.ts";
import { generateMap } from "./map.ts";
import { describeStandard, renderCompact } from "./render.ts";

export interface FrozenLakeOptions {
  /** Cells a side, 3 to 10. */
  readonly size: number;
  /** Share of frozen cells, (0, 1]. */
  readonly frozenProbability: number;
  readonly slippery: boolean;
  /** Turns; the map can be won in so many. */
  readonly maxSteps: number;
  /** Of the map. Absent: the episode's own. */
  readonly seed?: number | undefined;
  /** `standard`: rLLM's text. `compact`: one character a cell, for tiny models. */
  readonly observation: "standard" | "compact";
  /** Success pays stepDiscount^(steps − 1), (0, 1]. */
  readonly stepDiscount: number;
  /** What the step into a hole pays, [-1, 0]. Absent: 0, as every other step that does not reach the goal. */
  readonly holeReward?: number | undefined;
  /** What an answer pays that is no action, [-1, 0]. Absent: 0. Where falls cost, it should: else silence is the safest step. */
  readonly invalidReward?: number | undefined;
}

/** Walk over a frozen lake to the goal, around the holes. Actions: "Left", "Down", "Right", "Up"; all else is invalid. */
export class FrozenLakeEnv extends BaseEnv {
  readonly #options: FrozenLakeOptions;
  #state: LakeState | undefined;
  #slip: Rng | undefined;
  #over = false;

  constructor(options: FrozenLakeOptions) {
    super();
    this.#options = options;
  }

  /** The map comes from the task's seed, the slips from the episode's: members of a group share the map, not their luck. */
  reset({ seed }: ResetOptions): ResetResult {
    const { slippery, seed: mapSeed = seed } = this.#options;
    const map = generateMap({ ...this.#options, seed: mapSeed });
    this.#state = startGame(map);
    this.#slip = slippery ? createRng(deriveSeed(mapSeed, "slip", seed)) : undefined;
    this.#over = false;
    return { observation: this.#observe(this.#state, false), info: { shortestPath: map.shortestPath } };
  }

  step(action: unknown): StepResult {
    const before = this.#running();
    const state = move(before, action, this.#slip);
    this.#state = state;
    const success = isOnGoal(state);
    const fell = isInHole(state);
    const terminated = success || fell;
    const truncated = !terminated && state.steps >= this.#options.maxSteps;
    this.#over = terminated || truncated;
    return {
      observation: this.#observe(state, state.player === before.player),
      reward: isDirection(action) ? this.#reward(state.steps, success, fell) : (this.#options.invalidReward ?? 0),
      terminated,
      truncated,
      info: infoOf(isDirection(action), this.#over, success),
    };
  }

  #reward(steps: number, success: boolean, fell: boolean): number {
    if (success) return this.#options.stepDiscount ** (steps - 1);
    return fell ? (this.#options.holeReward ?? 0) : 0;
  }

  #running(): LakeState {
    if (this.#state !== undefined && !this.#over) return this.#state;
    throw new WhetstoneError("FAILED_PRECONDITION", "frozenlake: step needs a reset first, and none follows the end");
  }

  #observe(state: LakeState, stayed: boolean): string {
    const { observation, maxSteps } = this.#options;
    return observation === "compact" ? renderCompact(state) : describeStandard(state, maxSteps, stayed);
  }
}

function infoOf(valid: boolean, over: boolean, success: boolean): Readonly<Record<string, boolean>> {
  if (!over) return valid ? NOTHING : { invalid: true };
  return valid ? { success } : { invalid: true, success };
}

const NOTHING = {};

const FrozenLakeArgs = z.strictObject({
  size: z.number().int().min(3).max(10).default(8).describe("cells a side"),
  frozenProbability: z.number().gt(0).max(1).default(0.8).describe("share of cells that are no holes"),
  slippery: z.boolean().default(false).describe("with 2/3 the player slips to a side"),
  maxSteps: z.number().int().min(1).max(1000).optional().describe("turns; default 2 × size"),
  seed: z.number().int().min(0).max(Number.MAX_SAFE_INTEGER).optional().describe("of the map; default: the episode's"),
  observation: z.enum(["standard", "compact"]).default("standard").describe("compact: one character a cell"),
  stepDiscount: z.number().gt(0).max(1).default(1).describe("success pays stepDiscount^(steps - 1)"),
  holeReward: z.number().min(-1).max(0).default(0).describe("what the step into a hole pays"),
  invalidReward: z.number().min(-1).max(0).default(0).describe("what an answer pays that is no action"),
});

export const frozenLake = defineEnvironment<FrozenLakeOptions>({
  kind: "frozenlake",
  description: "Walk over a frozen lake to the goal, around the holes; every map can be won within maxSteps.",
  seedable: true,
  parseArgs: (args) => {
    const parsed = parseOrThrow(FrozenLakeArgs, args, "");
    return { ...parsed, maxSteps: parsed.maxSteps ?? 2 * parsed.size };
  },
  argsSchema: z.toJSONSchema(FrozenLakeArgs, { io: "input" }),
  create: (options) => new FrozenLakeEnv(options),
});
