// SPDX-License-Identifier: Apache-2.0
// Writes maps.golden.json. Only when the rules of drawing change on purpose: old jobs then see other maps.
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { generateMap, renderCompact, startGame } from "../src/index.ts";

const SHARES = [0.6, 0.7, 0.8, 0.9, 0.2];

const maps = Array.from({ length: 50 }, (_, seed) => {
  const size = 3 + (seed % 8);
  const maxSteps = seed % 7 === 0 ? 3 : 2 * size;
  const options = { seed, size, frozenProbability: SHARES[seed % SHARES.length] as number, maxSteps };
  const map = generateMap(options);
  return { ...options, board: renderCompact(startGame(map)), shortestPath: map.shortestPath };
});

const path = join(import.meta.dirname, "../src/frozenlake/maps.golden.json");
writeFileSync(path, `${JSON.stringify({ maps }, null, 2)}\n`);
