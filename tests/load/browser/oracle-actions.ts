// SPDX-License-Identifier: Apache-2.0
// For record_browsergym.py: a line for each task of MiniWoB++, with the actions by which its oracle solves it (none: no oracle).
//   node tests/load/browser/oracle-actions.ts [seed]
import { Miniwob } from "@whetstone/browser";
import { miniwobFolder, ORACLES, playOracle, startTestPool } from "@whetstone/browser/test-support";

const seed = Number(process.argv[2] ?? 7);
const miniwob = Miniwob.in(miniwobFolder());
if (miniwob === undefined) throw new Error("MiniWoB++ is not installed");
await using own = await startTestPool();
for (const task of miniwob.tasks) {
  const oracle = ORACLES[task];
  const played = oracle && (await playOracle({ pool: own.pool, miniwob }, { task, seed, oracle }));
  console.log(JSON.stringify({ task, seed, actions: played?.reward === 1 ? played.actions : [] }));
}
