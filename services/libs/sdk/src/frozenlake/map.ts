// SPDX-License-Identifier: Apache-2.0
import { createRng, type Rng, WhetstoneError } from "@whetstone/core";

// The same arguments give the same map on every machine: only core's generator, which is integer arithmetic, draws.
// Vectors: maps.golden.json.

export type Cell = "frozen" | "hole";

export interface MapOptions {
  /** Cells a side, 3 to 10. */
  readonly size: number;
  /** Share of frozen cells, (0, 1]. */
  readonly frozenProbability: number;
  /** The shortest way to the goal has at most so many steps, at least 1. */
  readonly maxSteps: number;
  readonly seed: number;
}

/** Cells row by row: index = row × size + column. */
export interface LakeMap {
  readonly size: number;
  readonly cells: readonly Cell[];
  readonly start: number;
  readonly goal: number;
  /** Steps of the shortest way from start to goal. */
  readonly shortestPath: number;
}

export const DIRECTIONS = ["Left", "Down", "Right", "Up"] as const;
export type Direction = (typeof DIRECTIONS)[number];

const MIN_SIZE = 3;
const MAX_SIZE = 10;
const DRAWS = 200;

/** Draws maps until one can be won within `maxSteps`; if luck fails, clears a way in the last one. */
export function generateMap(options: MapOptions): LakeMap {
  check(options);
  const rng = createRng(options.seed);
  for (let draw = 0; draw < DRAWS; draw += 1) {
    const map = drawMap(rng, options);
    if (map.shortestPath <= options.maxSteps) return map;
  }
  return clearedMap(rng, options);
}

function check({ size, frozenProbability, maxSteps, seed }: MapOptions): void {
  const whole = (value: number, from: number, to: number): boolean =>
    Number.isSafeInteger(value) && value >= from && value <= to;
  const refuse = (what: string): never => {
    throw new WhetstoneError("TASK_INVALID", `frozenlake: ${what}`);
  };
  if (!whole(size, MIN_SIZE, MAX_SIZE)) refuse(`size must be ${MIN_SIZE} to ${MAX_SIZE}, not ${size}`);
  if (!(frozenProbability > 0 && frozenProbability <= 1)) refuse("frozenProbability must be in (0, 1]");
  if (!whole(maxSteps, 1, Number.MAX_SAFE_INTEGER)) refuse("maxSteps must be at least 1");
  if (!whole(seed, 0, Number.MAX_SAFE_INTEGER)) refuse("seed must be a whole number from 0 to 2^53 - 1");
}

function drawMap(rng: Rng, { size, frozenProbability }: MapOptions): LakeMap {
  const count = size * size;
  const start = rng.integer(count);
  const other = rng.integer(count - 1);
  const goal = other >= start ? other + 1 : other;
  const cells = Array.from({ length: count }, (): Cell => (rng.next() < frozenProbability ? "frozen" : "hole"));
  cells[start] = "frozen";
  cells[goal] = "frozen";
  return { size, cells, start, goal, shortestPath: distances({ size, cells, goal })[start] as number };
}

/** The goal is put at most `maxSteps` from the start, and the cells between are frozen: first along the row. */
function clearedMap(rng: Rng, options: MapOptions): LakeMap {
  const map = drawMap(rng, options);
  const { size, start } = map;
  const near = map.cells
    .map((_, cell) => cell)
    .filter((cell) => {
      const apart = manhattan(size, start, cell);
      return apart >= 1 && apart <= options.maxSteps;
    });
  const goal = rng.choice(near);
  const cells = [...map.cells];
  for (let at = start; at !== goal; at = stepTowards(size, at, goal)) cells[at] = "frozen";
  cells[goal] = "frozen";
  return { size, cells, start, goal, shortestPath: distances({ size, cells, goal })[start] as number };
}

function manhattan(size: number, a: number, b: number): number {
  return Math.abs(Math.floor(a / size) - Math.floor(b / size)) + Math.abs((a % size) - (b % size));
}

function stepTowards(size: number, at: number, goal: number): number {
  const columns = (goal % size) - (at % size);
  return columns !== 0 ? at + Math.sign(columns) : at + Math.sign(goal - at) * size;
}

/** The cell that a step leads to; at the edge it stays. */
export function neighbour(size: number, cell: number, direction: Direction): number {
  const column = cell % size;
  switch (direction) {
    case "Left":
      return column === 0 ? cell : cell - 1;
    case "Right":
      return column === size - 1 ? cell : cell + 1;
    case "Up":
      return cell < size ? cell : cell - size;
    case "Down":
      return cell >= size * (size - 1) ? cell : cell + size;
  }
}

/** Steps from each cell to the goal, around the holes; Infinity where there is no way. */
export function distances({ size, cells, goal }: Pick<LakeMap, "size" | "cells" | "goal">): number[] {
  const found = cells.map(() => Number.POSITIVE_INFINITY);
  found[goal] = 0;
  const queue = [goal];
  for (const cell of queue) {
    for (const direction of DIRECTIONS) {
      const next = neighbour(size, cell, direction);
      if (cells[next] === "hole" || found[next] !== Number.POSITIVE_INFINITY) continue;
      found[next] = (found[cell] as number) + 1;
      queue.push(next);
    }
  }
  return found;
}
