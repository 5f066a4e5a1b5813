// SPDX-License-Identifier: Apache-2.0
import { ConfigError } from "@whetstone/core";
import { describe, expect, it } from "vitest";
import { CountingEnv, EchoAgent, hang, ScriptedClient } from "../../test-support/stand-ins.ts";
import {
  AgentExecutionEngine,
  EpisodeError,
  type FailureClass,
  isScored,
  type Phase,
  type TerminationReason,
} from "../index.ts";

// Every phase, hanging or throwing: which class, played how often, and is everything closed?

type Fault = "hang" | "throw";

interface Scene {
  readonly env: CountingEnv;
  readonly client: ScriptedClient;
  readonly agent: EchoAgent;
}

const boom = (): Promise<never> => Promise.reject(new Error("boom"));
const failing = (fault: Fault): (() => Promise<never>) => (fault === "hang" ? hang : boom);
const throwing = (): never => {
  throw new Error("boom");
};

const PHASES = {
  reset: ({ env }: Scene, fault: Fault) => Object.assign(env, { reset: failing(fault) }),
  model: ({ client }: Scene, fault: Fault) => Object.assign(client, { chat: failing(fault) }),
  finish: ({ client }: Scene, fault: Fault) => Object.assign(client, { finish: failing(fault) }),
  step: ({ env }: Scene, fault: Fault) => Object.assign(env, { step: failing(fault) }),
  reward: ({ env }: Scene, fault: Fault) => Object.assign(env, { computeFinalReward: failing(fault) }),
  agent: ({ agent }: Scene) => Object.assign(agent, { updateFromModel: throwing }),
  "agent's messages": ({ agent }: Scene) => Object.defineProperty(agent, "chatCompletions", { get: throwing }),
  "agent's eyes": ({ agent }: Scene) => Object.assign(agent, { updateFromEnv: throwing }),
};

interface Row {
  readonly phase: keyof typeof PHASES;
  readonly fault: Fault;
  readonly class: FailureClass;
  readonly reason: TerminationReason;
  readonly tries: number;
}

const TABLE: Row[] = [
  { phase: "reset", fault: "throw", class: "ENVIRONMENT", reason: "ERROR", tries: 3 },
  { phase: "model", fault: "throw", class: "INFRASTRUCTURE", reason: "ERROR", tries: 3 },
  { phase: "finish", fault: "throw", class: "INFRASTRUCTURE", reason: "ERROR", tries: 3 },
  { phase: "step", fault: "throw", class: "ENVIRONMENT", reason: "ERROR", tries: 3 },
  { phase: "reward", fault: "throw", class: "GRADER", reason: "ERROR", tries: 3 },
  { phase: "agent", fault: "throw", class: "TASK", reason: "ERROR", tries: 1 },
  { phase: "agent's messages", fault: "throw", class: "TASK", reason: "ERROR", tries: 1 },
  { phase: "agent's eyes", fault: "throw", class: "TASK", reason: "ERROR", tries: 1 },
  { phase: "reset", fault: "hang", class: "DEADLINE", reason: "DEADLINE", tries: 1 },
  { phase: "model", fault: "hang", class: "DEADLINE", reason: "DEADLINE", tries: 1 },
  { phase: "finish", fault: "hang", class: "DEADLINE", reason: "DEADLINE", tries: 1 },
  { phase: "step", fault: "hang", class: "DEADLINE", reason: "DEADLINE", tries: 1 },
  { phase: "reward", fault: "hang", class: "DEADLINE", reason: "DEADLINE", tries: 1 },
];

function play(prepare: (scene: Scene) => unknown, options: { signal?: AbortSignal; timeoutMs?: number } = {}) {
  const envs: CountingEnv[] = [];
  const client = new ScriptedClient();
  const engine = new AgentExecutionEngine({
    rolloutClient: client,
    agentFactory: () => {
      const scene = { env: new CountingEnv(), client, agent: new EchoAgent() };
      prepare(scene);
      envs.push(scene.env);
      return scene.agent;
    },
    environmentFactory: () => envs.at(-1) as CountingEnv,
    trajectoryTimeoutMs: options.timeoutMs ?? 60_000,
    closeTimeoutMs: 50,
    clock: { now: Date.now, monotonicMs: () => performance.now(), sleep: () => Promise.resolve() },
  });
  const { signal } = options;
  return { envs, episode: engine.runEpisode({ id: "e", task: { id: "t", payload: {} }, seed: 1 }, { signal }) };
}

describe("faults", () => {
  it.each(TABLE)("$phase: $fault → $class, $reason, tries $tries", async (row) => {
    const { phase, fault, reason, tries } = row;
    const timeoutMs = fault === "hang" ? 60 : 60_000;
    const { envs, episode } = play((scene) => PHASES[phase](scene, fault), { timeoutMs });
    expect(await episode).toMatchObject({ terminationReason: reason, failure: { class: row.class }, tries });
    expect(envs.map(({ closed }) => closed)).toEqual(Array.from({ length: tries }, () => 1));
  });

  it.each(["hang", "throw"] as const)("close: %s → the result stands, and says so", async (fault) => {
    const { episode } = play(({ env }) => Object.assign(env, { close: failing(fault) }));
    expect(await episode).toMatchObject({ terminationReason: "ENV_DONE", reward: 3, tries: 1 });
    expect((await episode).failure).toMatchObject({ class: "NONE", phase: "close" });
  });

  it.each(["reset", "model", "step", "reward"] as const)(
    "cancel during %s → CANCELLED, closed, not retried",
    async (phase) => {
      const cancel = new AbortController();
      const { envs, episode } = play((scene) => PHASES[phase](scene, "hang"), { signal: cancel.signal });
      setTimeout(() => {
        cancel.abort();
      }, 20);
      expect(await episode).toMatchObject({ terminationReason: "CANCELLED", failure: { class: "NONE" }, tries: 1 });
      expect(envs.map(({ closed }) => closed)).toEqual([1]);
    },
  );

  it("keeps the steps before a deadline", async () => {
    const { episode } = play(
      ({ env }) => {
        const step = env.step.bind(env);
        env.step = (action) => (env.steps === 2 ? hang() : step(action));
      },
      { timeoutMs: 60 },
    );
    expect((await episode).trajectories[0]?.steps).toHaveLength(3);
    expect((await episode).reward).toBe(2);
  });

  it("never plays a broken task twice: refused arguments are TASK with their path", async () => {
    const { episode } = play(({ env }) => {
      env.reset = () => {
        throw new ConfigError([{ path: "args.size", reason: "too big" }], { code: "TASK_INVALID" });
      };
    });
    expect(await episode).toMatchObject({ tries: 1, failure: { class: "TASK", message: "args.size: too big" } });
  });

  it("closes an environment that arrives after the deadline", async () => {
    const env = new CountingEnv();
    const late = Promise.withResolvers<CountingEnv>();
    const engine = new AgentExecutionEngine({
      rolloutClient: new ScriptedClient(),
      agentFactory: () => new EchoAgent(),
      environmentFactory: () => late.promise,
      trajectoryTimeoutMs: 20,
    });
    const episode = await engine.runEpisode({ id: "e", task: { id: "t", payload: {} }, seed: 1 });
    expect(episode.terminationReason).toBe("DEADLINE");
    late.resolve(env);
    await expect.poll(() => env.closed).toBe(1);
  });
});

// The whole matrix: each class, thrown by whoever works in the phase (DEADLINE: who never comes back).

interface Cell {
  readonly thrown: FailureClass;
  readonly phase: Phase;
  readonly class: FailureClass;
  readonly reason: TerminationReason;
  readonly tries: number;
  /** Whether its reward counts. */
  readonly scored: boolean;
  /** So far: model and step fail in the second turn. */
  readonly reward: number;
  readonly masked: boolean;
}

/** thrown, phase → class, reason, tries, scored, reward, masked (by the overlong filter). */
const MATRIX: [FailureClass, Phase, FailureClass, TerminationReason, number, boolean, number, boolean][] = [
  ["POLICY", "reset", "POLICY", "ERROR", 1, true, 0, false],
  ["POLICY", "model", "POLICY", "ERROR", 1, true, 1, false],
  ["POLICY", "step", "POLICY", "ERROR", 1, true, 1, false],
  ["POLICY", "reward", "POLICY", "ERROR", 1, true, 3, false],
  ["POLICY", "close", "NONE", "ENV_DONE", 1, true, 3, false],
  ["TASK", "reset", "TASK", "ERROR", 1, false, 0, false],
  ["TASK", "model", "TASK", "ERROR", 1, false, 1, false],
  ["TASK", "step", "TASK", "ERROR", 1, false, 1, false],
  ["TASK", "reward", "TASK", "ERROR", 1, false, 3, false],
  ["TASK", "close", "NONE", "ENV_DONE", 1, true, 3, false],
  ["ENVIRONMENT", "reset", "ENVIRONMENT", "ERROR", 3, false, 0, false],
  ["ENVIRONMENT", "model", "ENVIRONMENT", "ERROR", 3, false, 1, false],
  ["ENVIRONMENT", "step", "ENVIRONMENT", "ERROR", 3, false, 1, false],
  ["ENVIRONMENT", "reward", "ENVIRONMENT", "ERROR", 3, false, 3, false],
  ["ENVIRONMENT", "close", "NONE", "ENV_DONE", 1, true, 3, false],
  ["INFRASTRUCTURE", "reset", "INFRASTRUCTURE", "ERROR", 3, false, 0, false],
  ["INFRASTRUCTURE", "model", "INFRASTRUCTURE", "ERROR", 3, false, 1, false],
  ["INFRASTRUCTURE", "step", "INFRASTRUCTURE", "ERROR", 3, false, 1, false],
  ["INFRASTRUCTURE", "reward", "INFRASTRUCTURE", "ERROR", 3, false, 3, false],
  ["INFRASTRUCTURE", "close", "NONE", "ENV_DONE", 1, true, 3, false],
  ["GRADER", "reset", "GRADER", "ERROR", 3, false, 0, false],
  ["GRADER", "model", "GRADER", "ERROR", 3, false, 1, false],
  ["GRADER", "step", "GRADER", "ERROR", 3, false, 1, false],
  ["GRADER", "reward", "GRADER", "ERROR", 3, false, 3, false],
  ["GRADER", "close", "NONE", "ENV_DONE", 1, true, 3, false],
  ["DEADLINE", "reset", "DEADLINE", "DEADLINE", 1, false, 0, true],
  ["DEADLINE", "model", "DEADLINE", "DEADLINE", 1, false, 1, true],
  ["DEADLINE", "step", "DEADLINE", "DEADLINE", 1, false, 1, true],
  ["DEADLINE", "reward", "DEADLINE", "DEADLINE", 1, false, 3, true],
  ["DEADLINE", "close", "NONE", "ENV_DONE", 1, true, 3, false],
];

const CELLS = MATRIX.map(([thrown, phase, failureClass, reason, tries, scored, reward, masked]): Cell => ({
  ...{ thrown, phase, class: failureClass, reason, tries, scored, reward, masked },
}));

/** In the second turn, where there are turns. */
function strike({ env, client }: Pick<Scene, "env" | "client">, phase: Phase, fault: () => Promise<never>): void {
  const chat = client.chat.bind(client);
  const step = env.step.bind(env);
  if (phase === "reset") env.reset = fault;
  if (phase === "model") client.chat = (...call) => (env.steps === 1 ? fault() : chat(...call));
  if (phase === "step") env.step = (action) => (env.steps === 1 ? fault() : step(action));
  if (phase === "reward") Object.assign(env, { computeFinalReward: fault });
  if (phase !== "close") return;
  env.close = () => {
    env.closed += 1;
    return fault();
  };
}

function faultOf(thrown: FailureClass): () => Promise<never> {
  return thrown === "DEADLINE" ? hang : () => Promise.reject(new EpisodeError(thrown, "boom"));
}

describe("every class in every phase", () => {
  it.each(CELLS)("$thrown in $phase → $class, $reason, tries $tries, scored $scored", async (cell) => {
    const envs: CountingEnv[] = [];
    const clients: ScriptedClient[] = [];
    const engine = new AgentExecutionEngine({
      rolloutClient: () => {
        const client = new ScriptedClient();
        clients.push(client);
        return client;
      },
      agentFactory: () => new EchoAgent(),
      environmentFactory: () => {
        const env = new CountingEnv();
        envs.push(env);
        strike({ env, client: clients.at(-1) as ScriptedClient }, cell.phase, faultOf(cell.thrown));
        return env;
      },
      trajectoryTimeoutMs: cell.thrown === "DEADLINE" && cell.phase !== "close" ? 60 : 60_000,
      closeTimeoutMs: 30,
      overlongFilter: true,
      clock: { now: Date.now, monotonicMs: () => performance.now(), sleep: () => Promise.resolve() },
    });
    const episode = await engine.runEpisode({ id: "e", task: { id: "t", payload: {} }, seed: 1 });
    expect(episode).toMatchObject({
      terminationReason: cell.reason,
      failure: { class: cell.class, phase: cell.phase },
      tries: cell.tries,
      reward: cell.reward,
      masked: cell.masked,
    });
    expect(isScored(episode)).toBe(cell.scored);
    const once = Array.from({ length: cell.tries }, () => 1);
    expect(envs.map(({ closed }) => closed)).toEqual(once);
    expect(clients.map(({ finished, abandoned }) => finished + abandoned)).toEqual(once);
    expect(clients.at(-1)?.finished).toBe(cell.scored ? 1 : 0);
  });

  it("hanging for ever in each phase, deaf to the abort, does not delay the batch beyond its deadline", async () => {
    const phases: (Phase | "open" | "none")[] = ["open", "reset", "model", "step", "reward", "close", "none"];
    const tasks = Array.from({ length: 70 }, (_, i) => ({ id: `t${i}`, payload: { phase: phases[i % 7] } }));
    const opened: CountingEnv[] = [];
    const clients = new Map<string, ScriptedClient>();
    const engine = new AgentExecutionEngine({
      rolloutClient: (run) => {
        const client = new ScriptedClient();
        clients.set(run.id, client);
        return client;
      },
      agentFactory: () => new EchoAgent(),
      environmentFactory: ({ phase }, run) => {
        if (phase === "open") return hang();
        const env = new CountingEnv();
        opened.push(env);
        strike({ env, client: clients.get(run.id) as ScriptedClient }, phase as Phase, hang);
        return env;
      },
      trajectoryTimeoutMs: 300,
      closeTimeoutMs: 200,
    });
    const startedAt = performance.now();
    const episodes = await engine.executeTasks(tasks);
    expect(performance.now() - startedAt).toBeLessThan(15_000);
    const reasons = episodes.map(({ terminationReason }) => terminationReason);
    const expected = phases.map((phase) => (phase === "close" || phase === "none" ? "ENV_DONE" : "DEADLINE"));
    expect(reasons).toEqual(tasks.map((_, i) => expected[i % 7]));
    expect(opened.filter(({ closed }) => closed !== 1)).toEqual([]);
  });
});
