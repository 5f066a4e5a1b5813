// SPDX-License-Identifier: Apache-2.0
import { readFileSync } from "node:fs";
import { join } from "node:path";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { FrozenLakeEnv, type FrozenLakeOptions, generateMap, legalMoves, renderCompact, startGame } from "../index.ts";
import { bestMoves, move } from "./game.ts";
import { distances } from "./map.ts";

interface Golden {
  readonly maps: readonly {
    readonly seed: number;
    readonly size: number;
    readonly frozenProbability: number;
    readonly maxSteps: number;
    readonly board: string;
    readonly shortestPath: number;
  }[];
}

const golden = JSON.parse(readFileSync(join(import.meta.dirname, "maps.golden.json"), "utf8")) as Golden;
const OPTIONS: FrozenLakeOptions = {
  size: 4,
  frozenProbability: 0.8,
  slippery: false,
  maxSteps: 8,
  observation: "compact",
  stepDiscount: 1,
};

describe("maps", () => {
  it("has 50 golden maps", () => {
    expect(golden.maps).toHaveLength(50);
  });

  it.each(golden.maps)("seed $seed, size $size is the golden one", ({ board, shortestPath, ...options }) => {
    const map = generateMap(options);
    expect([renderCompact(startGame(map)), map.shortestPath]).toEqual([board, shortestPath]);
  });

  it("can always be won within maxSteps, from a start that is not the goal", () => {
    const options = fc.record({
      size: fc.integer({ min: 3, max: 10 }),
      frozenProbability: fc.constantFrom(0.05, 0.3, 0.6, 0.8, 1),
      maxSteps: fc.integer({ min: 1, max: 20 }),
      seed: fc.maxSafeNat(),
    });
    fc.assert(
      fc.property(options, (given) => {
        const map = generateMap(given);
        expect(map.start).not.toBe(map.goal);
        expect(distances(map)[map.start]).toBe(map.shortestPath);
        expect(map.shortestPath).toBeLessThanOrEqual(given.maxSteps);
      }),
      { numRuns: 300 },
    );
  });

  it("refuses what it cannot draw", () => {
    expect(() => generateMap({ ...OPTIONS, seed: 1, size: 11 })).toThrow(/size must be 3 to 10/);
    expect(() => generateMap({ ...OPTIONS, seed: 1, frozenProbability: 0 })).toThrow(/frozenProbability/);
  });
});

/** Plays a shortest way to the goal. */
function playBest(env: FrozenLakeEnv, seed: number) {
  env.reset({ seed });
  const map = generateMap({ ...OPTIONS, seed });
  let state = startGame(map);
  for (;;) {
    const action = bestMoves(state)[0];
    const result = env.step(action);
    state = move(state, action);
    if (result.terminated || result.truncated) return { result, map };
  }
}

describe("the game", () => {
  it("is won by the best moves, and pays for speed when told so", () => {
    const env = new FrozenLakeEnv({ ...OPTIONS, stepDiscount: 0.5 });
    const { result, map } = playBest(env, 5);
    expect(result).toMatchObject({ terminated: true, truncated: false, info: { success: true } });
    expect(result.reward).toBe(0.5 ** (map.shortestPath - 1));
    expect(result.observation).toContain("*");
  });

  it("pays holeReward for the step into a hole, and for nothing else that ends without the goal", () => {
    const ends = Array.from({ length: 200 }, (_, seed) => {
      const env = new FrozenLakeEnv({ ...OPTIONS, maxSteps: 6, holeReward: -0.5 });
      env.reset({ seed });
      for (;;) {
        const { reward, terminated, truncated, info } = env.step("Right");
        if (terminated || truncated)
          return { reward, end: truncated ? "truncated" : info?.["success"] ? "goal" : "hole" };
        expect(reward).toBe(0);
      }
    });
    expect(new Set(ends.map(({ end }) => end))).toEqual(new Set(["goal", "hole", "truncated"]));
    for (const { end, reward } of ends) expect(reward).toBe({ goal: 1, hole: -0.5, truncated: 0 }[end]);
  });

  it("pays invalidReward for an answer that is no action, and for no action", () => {
    const env = new FrozenLakeEnv({ ...OPTIONS, holeReward: 0, invalidReward: -0.25 });
    env.reset({ seed: 1 });
    expect([null, "LL", "left", 3].map((action) => env.step(action).reward)).toEqual([-0.25, -0.25, -0.25, -0.25]);
    expect(env.step("Left").reward).toBeGreaterThanOrEqual(0);
  });

  it("takes no step after the end", () => {
    const env = new FrozenLakeEnv(OPTIONS);
    playBest(env, 5);
    expect(() => env.step("Up")).toThrow(/reset/);
  });

  it("uses a turn for an invalid action, moves nobody, and says so", () => {
    const env = new FrozenLakeEnv({ ...OPTIONS, observation: "standard" });
    const { observation } = env.reset({ seed: 3 });
    const result = env.step("");
    expect(result).toMatchObject({ reward: 0, terminated: false, info: { invalid: true } });
    const board = (text: unknown): string => String(text).split("\n").slice(1, 5).join("\n");
    expect(board(result.observation)).toBe(board(observation));
    expect(result.observation).toContain("Your last response is invalid. Your position didn't change at all.");
    expect(result.observation).toContain("The maximum number of steps remaining is 7.");
  });

  it("is truncated by its own limit", () => {
    const env = new FrozenLakeEnv({ ...OPTIONS, maxSteps: 3 });
    env.reset({ seed: 3 });
    const results = [1, 2, 3].map(() => env.step(""));
    expect(results.map(({ truncated }) => truncated)).toEqual([false, false, true]);
    expect(results[2]?.info).toMatchObject({ success: false });
  });

  it("slips one third each way, the same for the same seeds", () => {
    const counts = new Map<string, number>();
    for (let seed = 0; seed < 3000; seed += 1) {
      const env = new FrozenLakeEnv({ ...OPTIONS, size: 5, frozenProbability: 1, slippery: true, seed: 11 });
      const before = String(env.reset({ seed }).observation).indexOf("P");
      const after = String(env.step("Down").observation).replace("*", "P").indexOf("P");
      counts.set(String(after - before), (counts.get(String(after - before)) ?? 0) + 1);
    }
    for (const count of counts.values()) expect(count).toBeGreaterThan(850);
    const once = new FrozenLakeEnv({ ...OPTIONS, slippery: true, seed: 11 });
    const twice = new FrozenLakeEnv({ ...OPTIONS, slippery: true, seed: 11 });
    expect(once.reset({ seed: 4 })).toEqual(twice.reset({ seed: 4 }));
    expect(once.step("Up")).toEqual(twice.step("Up"));
  });

  it("renders rLLM's cells", () => {
    const env = new FrozenLakeEnv({ ...OPTIONS, size: 3, frozenProbability: 1, observation: "standard" });
    const rows = String(env.reset({ seed: 1 }).observation)
      .split("\n")
      .slice(1, 4);
    for (const row of rows) expect(row).toMatch(/^( [P_OG] \t){3}$/);
  });

  it("lists legal moves: those that leave the cell", () => {
    const map = generateMap({ ...OPTIONS, seed: 1 });
    expect(legalMoves({ map, player: 0 })).toEqual(["Down", "Right"]);
    expect(legalMoves({ map, player: 5 })).toEqual(["Left", "Down", "Right", "Up"]);
  });
});
