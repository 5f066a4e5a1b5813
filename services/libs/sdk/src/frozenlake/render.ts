// SPDX-License-Identifier: Apache-2.0
import { isInHole, isOnGoal, type LakeState } from "./game.ts";

type Symbols = Readonly<Record<"player" | "frozen" | "hole" | "goal" | "inHole" | "onGoal", string>>;

const STANDARD: Symbols = { player: "P", frozen: "_", hole: "O", goal: "G", inHole: "X", onGoal: "√" };
const COMPACT: Symbols = { ...STANDARD, onGoal: "*" };

function symbolAt(state: LakeState, cell: number, symbols: Symbols): string {
  if (cell !== state.player) {
    if (cell === state.map.goal) return symbols.goal;
    return state.map.cells[cell] === "hole" ? symbols.hole : symbols.frozen;
  }
  if (isOnGoal(state)) return symbols.onGoal;
  return isInHole(state) ? symbols.inHole : symbols.player;
}

function rows(state: LakeState, draw: (cell: number) => string): string {
  const { size } = state.map;
  let text = "";
  for (let cell = 0; cell < size * size; cell += 1) {
    if (cell > 0 && cell % size === 0) text += "\n";
    text += draw(cell);
  }
  return text;
}

/** rLLM's board: each cell `" P \t"`. */
export function renderStandard(state: LakeState): string {
  return rows(state, (cell) => ` ${symbolAt(state, cell, STANDARD)} \t`);
}

/** One character a cell, rows joined by newlines, nothing else. */
export function renderCompact(state: LakeState): string {
  return rows(state, (cell) => symbolAt(state, cell, COMPACT));
}

/** rLLM's user turn. @param stayed  the last answer moved nobody. */
export function describeStandard(state: LakeState, maxSteps: number, stayed: boolean): string {
  const lines = [`Current Observation (${state.steps}): `, renderStandard(state), verdict(state)];
  if (stayed) lines.push(STAYED);
  const left = maxSteps - state.steps;
  if (left > 0 && !isOnGoal(state) && !isInHole(state)) lines.push(`The maximum number of steps remaining is ${left}.`);
  return lines.join("\n");
}

const STAYED =
  "Your last response is invalid. Your position didn't change at all. " +
  "You may need to recheck your thinking process, action outputted, and the format of response.";

function verdict(state: LakeState): string {
  if (isOnGoal(state)) return "You have achieved the goal.";
  if (isInHole(state)) return "You fell into a hole.";
  return "You have not achieved the goal, P has not reached G yet. Please give the next action.";
}
