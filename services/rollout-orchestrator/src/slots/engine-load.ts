// SPDX-License-Identifier: Apache-2.0
import type { EngineLoad } from "./adaptive-limit.ts";
import { type LoadAnswer, mergeLoads } from "./merge-loads.ts";

const ANSWER_MS = 2_000;

/** What the replicas of the gateway that answer say of the engines; undefined: none does. */
export async function engineLoad(gatewayUrls: readonly string[]): Promise<EngineLoad | undefined> {
  const answers = await Promise.all(gatewayUrls.map(askOne));
  const [first, ...others] = answers.filter((answer) => answer !== undefined);
  return first && mergeLoads([first, ...others]);
}

/** Over a connection of its own: the agents' may all be busy, and then it matters most. */
async function askOne(url: string): Promise<LoadAnswer | undefined> {
  try {
    const answer = await fetch(`${url.replace(/\/$/, "")}/load`, { signal: AbortSignal.timeout(ANSWER_MS) });
    if (!answer.ok) return undefined;
    const load = (await answer.json()) as LoadAnswer;
    return Number.isFinite(load.serving + load.running + load.waiting) ? load : undefined;
  } catch {
    return undefined;
  }
}
