// SPDX-License-Identifier: Apache-2.0
import { deriveSeed, sleep } from "@whetstone/core";
import { answerBySeed, type LeanEngine, startLeanEngine } from "@whetstone/testkit";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { CompactAgent } from "../frozenlake/agents.ts";
import {
  AgentExecutionEngine,
  ChatClient,
  type ConnectionPool,
  createChatPool,
  type Environment,
  type Episode,
  EpisodeError,
  type EpisodeRun,
  type FailureClass,
  FrozenLakeEnv,
  isScored,
} from "../index.ts";

// 2,000 episodes at once over real HTTP, a third of them struck: what the others say must not move by a bit.

const EPISODES = 2_000;
const GROUP_SIZE = 8;
const DEADLINE_MS = 5_000;
/** 5 % of the episodes each. */
const STRUCK: readonly FailureClass[] = ["POLICY", "TASK", "ENVIRONMENT", "INFRASTRUCTURE", "GRADER", "DEADLINE"];
/** Faults that pass: the second try is sound. 5 % each, too. */
const PASSING: readonly FailureClass[] = ["ENVIRONMENT", "INFRASTRUCTURE", "GRADER"];

interface Fault {
  readonly class: FailureClass;
  readonly passes: boolean;
}

const LAKE = { size: 4, frozenProbability: 0.8, slippery: false, maxSteps: 5, stepDiscount: 0.9 } as const;
const tasks = Array.from({ length: EPISODES / GROUP_SIZE }, (_, i) => ({ id: `map-${i}`, payload: { seed: i } }));

let server: LeanEngine;
let pool: ConnectionPool;

beforeAll(async () => {
  const answer = (request: { route: string; body: string }) =>
    request.body.startsWith('{"model":"broken"') ? { status: 500, body: "{}" } : answerBySeed(request);
  server = await startLeanEngine({ latencyMs: 20, answer });
  pool = createChatPool(server.url);
});

afterAll(async () => {
  await pool.destroy();
  await server[Symbol.asyncDispose]();
});

function faultOf(id: string): Fault | undefined {
  const draw = deriveSeed(7, id) % 20;
  const lasting = STRUCK[draw];
  if (lasting !== undefined) return { class: lasting, passes: false };
  const passing = PASSING[draw - STRUCK.length];
  return passing === undefined ? undefined : { class: passing, passes: true };
}

type FaultFor = (run: EpisodeRun) => FailureClass | undefined;

/** What the policy gets wrong is its own: it happens in a sound run as well. */
const sound: FaultFor = (run) => (faultOf(run.id)?.class === "POLICY" ? "POLICY" : undefined);
const stormy: FaultFor = (run) => {
  const fault = faultOf(run.id);
  return fault === undefined || (fault.passes && run.try > 1) ? undefined : fault.class;
};

class BadAnswerAgent extends CompactAgent {
  override updateFromModel(response: string) {
    const action = super.updateFromModel(response);
    if (this.trajectory.steps.length === 1) throw new EpisodeError("POLICY", "no action in the answer");
    return action;
  }
}

function lake(seed: number, fault: FailureClass | undefined): Environment {
  const env = new FrozenLakeEnv({ ...LAKE, observation: "compact", seed });
  const fail = () => Promise.reject(new Error("struck"));
  if (fault === "TASK") return Object.assign(env, { reset: () => Promise.reject(new EpisodeError("TASK", "struck")) });
  if (fault === "ENVIRONMENT") return Object.assign(env, { step: fail });
  if (fault === "DEADLINE") return Object.assign(env, { step: () => new Promise<never>(() => undefined) });
  return fault === "GRADER" ? Object.assign(env, { computeFinalReward: fail }) : env;
}

function play(faultFor: FaultFor, trajectoryTimeoutMs: number): Promise<Episode[]> {
  const engine = new AgentExecutionEngine({
    rolloutClient: (run) => {
      const model = faultFor(run) === "INFRASTRUCTURE" ? "broken" : "sound";
      return new ChatClient({ baseUrl: server.url, model, pool });
    },
    agentFactory: (_args, run) => (faultFor(run) === "POLICY" ? new BadAnswerAgent() : new CompactAgent()),
    environmentFactory: ({ seed }, run) => lake(Number(seed), faultFor(run)),
    nParallelAgents: EPISODES,
    trajectoryTimeoutMs,
    clock: { now: Date.now, monotonicMs: () => performance.now(), sleep: (ms, signal) => sleep(ms / 20, signal) },
  });
  return engine.executeTasks(tasks, { nSamples: GROUP_SIZE, seed: 3 });
}

interface Statistics {
  readonly size: number;
  readonly mean: number;
  readonly std: number;
}

/** Of the scored members of each group. */
function statistics(episodes: readonly Episode[]): Map<string, Statistics> {
  const rewards = Map.groupBy(episodes, ({ task }) => task.id);
  return new Map([...rewards].map(([group, members]) => [group, of(members.map(({ reward }) => reward))]));
}

function of(values: readonly number[]): Statistics {
  const mean = values.reduce((sum, value) => sum + value, 0) / values.length;
  const squares = values.reduce((sum, value) => sum + (value - mean) ** 2, 0);
  return { size: values.length, mean, std: Math.sqrt(squares / (values.length - 1)) };
}

describe("2,000 episodes at once", () => {
  it("complete, and the groups' statistics are those of the sound members, exactly", async () => {
    const calm = await play(sound, 60_000);
    const storm = await play(stormy, DEADLINE_MS);

    expect(storm).toHaveLength(EPISODES);
    for (const episode of storm) {
      const fault = faultOf(episode.id);
      const expected = fault === undefined || fault.passes ? "NONE" : fault.class;
      expect([episode.id, episode.failure.class]).toEqual([episode.id, expected]);
      expect(episode.tries).toBe(fault?.passes ? 2 : PASSING.includes(expected) ? 3 : 1);
    }
    for (const failureClass of STRUCK) {
      const share = storm.filter(({ failure }) => failure.class === failureClass).length / EPISODES;
      expect(share).toBeCloseTo(0.05, 1);
    }

    const counted = storm.filter((episode) => isScored(episode));
    const ids = new Set(counted.map(({ id }) => id));
    const alike = calm.filter((episode) => isScored(episode) && ids.has(episode.id));
    expect(statistics(counted)).toEqual(statistics(alike));
    expect(counted.length).toBeGreaterThan(EPISODES * 0.7);
    expect(new Set(counted.map(({ reward }) => reward)).size).toBeGreaterThan(3);
    expect(statistics(storm)).not.toEqual(statistics(calm)); // The failed ones would have moved them.
  });
});
