// SPDX-License-Identifier: Apache-2.0
import type { Rng } from "@whetstone/core";
import { type Direction, DIRECTIONS, distances, type LakeMap, neighbour } from "./map.ts";

// The rules, pure: a state in, a state out.

export interface LakeState {
  readonly map: LakeMap;
  readonly player: number;
  /** Turns used, invalid ones included. */
  readonly steps: number;
}

export function startGame(map: LakeMap): LakeState {
  return { map, player: map.start, steps: 0 };
}

export function isDirection(action: unknown): action is Direction {
  return (DIRECTIONS as readonly unknown[]).includes(action);
}

/**
 * One turn. Anything but a direction is invalid: nobody moves, and the turn is used.
 * @param slip  given: slippery ice; with 1/3 each the player goes as wanted or to one of the two sides (Gymnasium's rule).
 */
export function move(state: LakeState, action: unknown, slip?: Rng): LakeState {
  const steps = state.steps + 1;
  if (!isDirection(action)) return { ...state, steps };
  const direction = slip === undefined ? action : slipped(action, slip);
  return { map: state.map, player: neighbour(state.map.size, state.player, direction), steps };
}

function slipped(wanted: Direction, rng: Rng): Direction {
  const turn = rng.integer(3) - 1; // DIRECTIONS lie around the compass: the sides are next to the one wanted.
  return DIRECTIONS[(DIRECTIONS.indexOf(wanted) + turn + 4) % 4] as Direction;
}

export function isOnGoal({ map, player }: LakeState): boolean {
  return player === map.goal;
}

export function isInHole({ map, player }: LakeState): boolean {
  return map.cells[player] === "hole";
}

/** Directions that begin a shortest way to the goal; empty where there is none. */
export function bestMoves({ map, player }: Pick<LakeState, "map" | "player">): Direction[] {
  const apart = distances(map);
  const here = apart[player] as number;
  if (!Number.isFinite(here)) return [];
  return DIRECTIONS.filter((direction) => apart[neighbour(map.size, player, direction)] === here - 1);
}

/** Directions that leave the cell: what a random player who does not walk into the edge picks from. */
export function legalMoves({ map, player }: Pick<LakeState, "map" | "player">): Direction[] {
  return DIRECTIONS.filter((direction) => neighbour(map.size, player, direction) !== player);
}
