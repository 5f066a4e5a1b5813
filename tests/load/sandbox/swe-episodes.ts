// SPDX-License-Identifier: Apache-2.0
// Whole episodes of repairing a library at a real env-runner, by a script that knows the answer: a sandbox to work in, another to judge.
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { EnvironmentService } from "@whetstone/proto/environments/v1/environments";
import { createClient, type RpcClient } from "@whetstone/rpc";
import { silentLogger } from "@whetstone/telemetry";
import { type Action, playTrial } from "../../../services/cli/src/environments/trial.ts";
import { startApp } from "../../../services/env-runner/src/app.ts";
import { ConfigSchema } from "../../../services/env-runner/src/config.ts";
import { repairs, type Scripted } from "../../support/scripted-episodes.ts";

const AT_A_TIME = 4;
const DEADLINE_MS = 120_000;

/** How many are played and graded in a minute, four at a time; all of them must be worth 1. */
export async function sweEpisodes(count: number) {
  const folder = mkdtempSync(join(tmpdir(), "whetstone-bench-"));
  await using runner = await startApp(ConfigSchema.parse({ grpcPort: 0, slots: AT_A_TIME }), { logger: silentLogger });
  await using client = createClient(EnvironmentService, runner.address);
  try {
    const tasks = await repairs(folder);
    const play = (i: number): Promise<number> => played(client, tasks[i % tasks.length] as Scripted, folder);
    await play(0); // The library is prepared.
    const startedAt = performance.now();
    const rewards: number[] = [];
    let next = 0;
    const player = async (): Promise<void> => {
      while (next < count) rewards.push(await play(next++));
    };
    await Promise.all(Array.from({ length: AT_A_TIME }, player));
    const minutes = (performance.now() - startedAt) / 60_000;
    const paid = rewards.filter((reward) => reward === 1).length;
    if (paid !== count) throw new Error(`${paid} of ${count} repairs were paid`);
    return { episodes: count, atATime: AT_A_TIME, perMinute: Math.round(count / minutes) };
  } finally {
    rmSync(folder, { recursive: true });
  }
}

async function played(
  client: RpcClient<typeof EnvironmentService>,
  { payload, oracle }: Scripted,
  libraries: string,
): Promise<number> {
  const actions = [...oracle, "done"] as Action[];
  const signal = AbortSignal.timeout(DEADLINE_MS);
  const trial = { kind: "swe", args: { ...payload, libraries }, seed: 0n, deadlineMs: DEADLINE_MS, signal };
  let reward = 0;
  for await (const { observation } of playTrial(client, trial, () => Promise.resolve(actions.shift())))
    reward = observation.reward ?? reward;
  return reward;
}
