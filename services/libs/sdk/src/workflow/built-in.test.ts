// SPDX-License-Identifier: Apache-2.0
import { describe, expect, it } from "vitest";
import { CountingEnv, EchoAgent, ScriptedClient } from "../../test-support/stand-ins.ts";
import {
  AgentExecutionEngine,
  AgentWorkflowEngine,
  type AgentWorkflowEngineOptions,
  type AgentWorkflowOptions,
  CumulativeWorkflow,
  defineWorkflow,
  type Episode,
  type Info,
  MultiTurnWorkflow,
  SimpleWorkflow,
  type SimpleWorkflowOptions,
  SingleTurnWorkflow,
  type Workflow,
} from "../index.ts";

function play(
  create: () => Workflow,
  options: Partial<AgentWorkflowEngineOptions> = {},
  payload: Info = { question: "1+1" },
): Promise<Episode> {
  const workflow = defineWorkflow({ kind: "built-in", create });
  const engine = new AgentWorkflowEngine({ rolloutClient: new ScriptedClient(), retryLimit: 0, workflow, ...options });
  return engine.runEpisode({ id: "t:0", task: { id: "t", payload }, seed: 7 });
}

function facts({ terminationReason, reward, trajectories }: Episode) {
  return [terminationReason, reward, trajectories.flatMap(({ steps }) => steps.map(({ callId }) => callId))];
}

describe("SimpleWorkflow", () => {
  const simple = (rewardFunction: SimpleWorkflowOptions["rewardFunction"]) => () =>
    new SimpleWorkflow({ rewardFunction, role: "solver" });

  it.each([{ question: "q" }, { prompt: "q" }, { problem: "q" }, { messages: [{ role: "user", content: "q" }] }])(
    "asks %j once and grades the answer",
    async (payload) => {
      const client = new ScriptedClient();
      const graded = simple((task, answer) => ({
        reward: answer === "a0" && task.id === "t" ? 2 : 0,
        isCorrect: false,
      }));
      const episode = await play(graded, { rolloutClient: client }, payload);
      expect(client.asked.map(({ messages }) => messages)).toEqual([[{ role: "user", content: "q" }]]);
      expect(facts(episode)).toEqual(["ENV_DONE", 2, ["c0"]]);
      expect([episode.isCorrect, episode.trajectories[0]?.name]).toEqual([false, "solver"]);
    },
  );

  it("tells a broken task and a broken grader apart", async () => {
    expect(
      (
        await play(
          simple(() => 1),
          {},
          { text: "q" },
        )
      ).failure,
    ).toMatchObject({ class: "TASK" });
    const judge = simple(() => Promise.reject(new Error("no answer")));
    expect((await play(judge)).failure).toMatchObject({ class: "GRADER", phase: "reward" });
  });
});

describe("workflows of one agent", () => {
  const agent = EchoAgent;
  const environmentFactory = () => new CountingEnv(3);

  it("one turn is a whole episode", async () => {
    const episode = await play(() => new SingleTurnWorkflow({ agent }), { environmentFactory, maxSteps: 9 });
    expect(facts(episode)).toEqual(["ENV_DONE", 1, ["c0"]]);
  });

  it.each([
    [5, "ENV_DONE", 3],
    [2, "MAX_TURNS", 2],
  ])("several turns, %i at most", async (maxSteps, reason, turns) => {
    const env = new CountingEnv(3);
    const episode = await play(() => new MultiTurnWorkflow({ agent, environment: () => env, maxSteps }));
    expect([episode.terminationReason, episode.reward, env.closed]).toEqual([reason, turns, 1]);
  });

  it("plays exactly as AgentExecutionEngine does", async () => {
    const clients = [new ScriptedClient(), new ScriptedClient()] as const;
    const reference = new AgentExecutionEngine({
      rolloutClient: clients[0],
      agentFactory: () => new EchoAgent(),
      environmentFactory,
      gamma: 0.5,
    });
    const expected = await reference.runEpisode({ id: "t:0", task: { id: "t", payload: {} }, seed: 7 });
    const cumulative = () => new CumulativeWorkflow({ agent });
    const episode = await play(cumulative, { rolloutClient: clients[1], environmentFactory, gamma: 0.5 });
    expect(episode.trajectories).toEqual(expected.trajectories);
    const asked = clients.map((client) =>
      client.asked.map(({ messages, options }) => [messages, options.maxTokens, options.seed]),
    );
    expect(asked[1]).toEqual(asked[0]);
  });

  it("MultiTurnWorkflow gives each call the whole budget, and ends after the environment has seen a cut answer", async () => {
    const client = new ScriptedClient((call) => ({ finishReason: call === 1 ? "length" : "stop" }));
    const env = new CountingEnv(9);
    const options = { rolloutClient: client, environmentFactory: () => env, maxResponseLength: 6 };
    const episode = await play(() => new MultiTurnWorkflow({ agent }), options);
    expect(client.asked.map(({ options: { maxTokens } }) => maxTokens)).toEqual([6, 6]);
    expect([episode.terminationReason, env.steps]).toEqual(["MAX_RESPONSE_LENGTH", 2]);
  });

  it("CumulativeWorkflow has one budget", async () => {
    const client = new ScriptedClient();
    const options = { rolloutClient: client, environmentFactory: () => new CountingEnv(9), maxResponseLength: 15 };
    const episode = await play(() => new CumulativeWorkflow({ agent }), options);
    expect(client.asked.map(({ options: { maxTokens } }) => maxTokens)).toEqual([15, 13]);
    expect(episode.terminationReason).toBe("MAX_RESPONSE_LENGTH");
  });

  it("commits what was played when the environment breaks, and names the phase", async () => {
    const env = new CountingEnv();
    const broken = Object.assign(env, {
      step: () => {
        if (env.steps++ > 0) throw new Error("broke");
        return { observation: "o", reward: 1, terminated: false, truncated: false, info: {} };
      },
    });
    const episode = await play(() => new MultiTurnWorkflow({ agent, environment: () => broken }));
    expect(episode.failure).toMatchObject({ class: "ENVIRONMENT", phase: "step" });
    expect([episode.trajectories[0]?.steps.length, episode.reward, env.closed]).toEqual([2, 1, 1]);
  });

  it("takes agents and environments of one's own, with arguments", async () => {
    const seen: unknown[] = [];
    const environment = (args: Info) => {
      seen.push(args);
      return new CountingEnv(1);
    };
    const options: AgentWorkflowOptions = {
      agent,
      environment,
      environmentArgs: { a: 1, question: "no" },
      role: "walker",
    };
    const episode = await play(() => new MultiTurnWorkflow(options));
    expect(seen).toEqual([{ a: 1, question: "1+1" }]);
    expect(episode.trajectories[0]?.name).toBe("walker");
  });
});
