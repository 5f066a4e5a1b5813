// SPDX-License-Identifier: Apache-2.0
import { ConfigError } from "@whetstone/core";
import { describe, expect, it } from "vitest";
import { CountingEnv, EchoAgent, hang, ScriptedClient } from "../../test-support/stand-ins.ts";
import { AgentExecutionEngine, type FailureClass, type TerminationReason } from "../index.ts";

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
