// SPDX-License-Identifier: Apache-2.0
import { ACTION_SUBSETS } from "../../src/actions/action.ts";
import { BrowserEnvironment } from "../../src/browser-environment.ts";
import type { Observation } from "../../src/episode/observation.ts";
import type { Miniwob } from "../../src/miniwob/miniwob.ts";
import type { BrowserPool } from "../../src/pool/browser-pool.ts";
import type { Oracle } from "./oracle.ts";
import { PageTree } from "./page-tree.ts";

export interface Played {
  readonly reward: number;
  readonly goal: string;
  readonly actions: readonly string[];
  /** What the last action got wrong, or why the oracle gave up; "": nothing. */
  readonly problem: string;
}

const MAX_STEPS = 60;

/** One episode of a task by its oracle, through the environment. */
export async function playOracle(
  deps: { readonly pool: BrowserPool; readonly miniwob: Miniwob },
  episode: { readonly task: string; readonly seed: number; readonly oracle: Oracle },
): Promise<Played> {
  const { pool, miniwob } = deps;
  const { task, seed, oracle } = episode;
  const env = new BrowserEnvironment({
    pool: () => pool,
    task: miniwob.task(task),
    maxSteps: MAX_STEPS,
    withGeneric: true,
    subsets: ACTION_SUBSETS,
  });
  const actions: string[] = [];
  try {
    const seen = (await env.reset({ seed })).observation as Observation;
    const { goal } = seen;
    const policy = oracle(treeOf(seen));
    let problem = "";
    let next = policy.next();
    while (next.done !== true) {
      actions.push(next.value);
      const { observation, reward, terminated, truncated } = await env.step(next.value);
      if (terminated || truncated) return { reward: reward ?? 0, goal, actions, problem };
      problem = (observation as Observation).lastActionError;
      next = policy.next(treeOf(observation as Observation));
    }
    return { reward: 0, goal, actions, problem: problem || "the episode goes on" };
  } catch (error) {
    return { reward: 0, goal: "", actions, problem: error instanceof Error ? error.message : String(error) };
  } finally {
    await env.close();
  }
}

function treeOf({ goal, axtree }: Observation): PageTree {
  return new PageTree(goal, axtree);
}
