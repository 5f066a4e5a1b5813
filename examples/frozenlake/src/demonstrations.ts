// SPDX-License-Identifier: Apache-2.0
import { writeFileSync } from "node:fs";
import { createRng } from "@whetstone/core";
import { generateMap, legalMoves, renderCompact, startGame } from "@whetstone/sdk";

/**
 * One turn on each of `count` maps, answered by a random move that does not leave the board: it shows the form of an answer
 * and nothing of the way. Seeds `first` … `first + count - 1`.
 */
export function writeDemonstrations(path: string, first: number, count: number): void {
  const lines = Array.from({ length: count }, (_, i) => JSON.stringify(demonstration(first + i)));
  writeFileSync(path, `${lines.join("\n")}\n`);
}

function demonstration(seed: number) {
  const state = startGame(generateMap({ size: 4, frozenProbability: 0.8, maxSteps: 6, seed }));
  const move = createRng(`demonstration ${seed}`).choice(legalMoves(state));
  return {
    id: `demonstration-${seed}`,
    demonstration: [
      { role: "user", content: renderCompact(state) },
      { role: "assistant", content: move.charAt(0) },
    ],
  };
}
