// SPDX-License-Identifier: Apache-2.0
import { describe, expect, it } from "vitest";
import { CountingEnv, EchoAgent, ScriptedClient } from "../../test-support/stand-ins.ts";
import {
  AgentExecutionEngine,
  type AgentExecutionEngineOptions,
  EpisodeError,
  type ModelAnswer,
  toTokenResult,
} from "../index.ts";

const TASKS = [{ id: "t", payload: {} }];

/** Ids as a server with exact continuation gives them: [1, 2] is the first prompt, each answer [7, 8], each delta [3]. */
function exactIds(call: number): Partial<ModelAnswer> {
  const promptIds = [1, 2];
  for (let i = 0; i < call; i += 1) promptIds.push(7, 8, 3);
  return { promptIds, completionIds: [7, 8], logprobs: [-0.5, -0.25] };
}

function engineWith(
  answer: (call: number) => Partial<ModelAnswer>,
  options: Partial<AgentExecutionEngineOptions> = {},
) {
  const client = new ScriptedClient(answer);
  const engine = new AgentExecutionEngine({
    rolloutClient: client,
    agentFactory: () => new EchoAgent(),
    environmentFactory: () => new CountingEnv(2),
    gamma: 0.5,
    ...options,
  });
  return { engine, client };
}

async function tokens(
  answer: (call: number) => Partial<ModelAnswer>,
  options: Partial<AgentExecutionEngineOptions> = {},
) {
  const [result] = await engineWith(answer, options).engine.executeTasks(TASKS, { mode: "Token" });
  if (result === undefined) throw new Error("no result");
  return result;
}

describe("mode Token", () => {
  it("is the server's own ids: prompt, then sampled (1) and added (0) by turns", async () => {
    expect(await tokens(exactIds)).toMatchObject({
      idx: 0,
      promptTokens: [1, 2],
      responseTokens: [7, 8, 3, 7, 8],
      responseMasks: [1, 1, 0, 1, 1],
      logprobs: [-0.5, -0.25, 0, -0.5, -0.25],
      trajectoryReward: 2,
      voided: false,
      metrics: { steps: 2, tokenMismatch: 0 },
    });
    expect(await tokens(exactIds)).not.toHaveProperty("tokenBreak");
  });

  it("asks for ids; the other modes do not", async () => {
    const { engine, client } = engineWith(exactIds);
    await engine.executeTasks(TASKS, { mode: "Token" });
    await engine.executeTasks(TASKS, { mode: "Text" });
    expect(client.asked.map(({ options }) => options.returnTokenIds)).toEqual([true, true, undefined, undefined]);
  });

  it("reports a prompt that does not continue the ids, ends the row there and trains nothing of it", async () => {
    const broken = (call: number) => (call === 0 ? exactIds(0) : { ...exactIds(1), promptIds: [1, 2, 7, 9, 3] });
    expect(await tokens(broken)).toMatchObject({
      tokenBreak: { step: 1, position: 3, expected: 8, found: 9 },
      responseTokens: [7, 8],
      responseMasks: [0, 0],
      metrics: { tokenMismatch: 1 },
    });
  });

  it("keeps what is before a break when told so", async () => {
    const shorter = (call: number) => (call === 0 ? exactIds(0) : { ...exactIds(1), promptIds: [1, 2] });
    const [episode] = await engineWith(shorter, { returnTokenIds: true }).engine.executeTasks(TASKS);
    const result = toTokenResult(episode as NonNullable<typeof episode>, { filterTokenMismatch: false });
    expect(result).toMatchObject({ tokenBreak: { step: 1, position: 2, expected: 7 }, responseMasks: [1, 1] });
    expect(result.tokenBreak).not.toHaveProperty("found");
  });

  it("keeps the zero mask of the overlong filter, which rLLM loses", async () => {
    const result = await tokens(exactIds, { maxSteps: 1, overlongFilter: true });
    expect(result).toMatchObject({ terminationReason: "MAX_TURNS", masked: true, responseMasks: [0, 0] });
  });

  it("trains nothing of an episode that failed, and says that its reward means nothing", async () => {
    const environmentFactory = () => {
      const env = new CountingEnv(3);
      const step = env.step.bind(env);
      env.step = (action) => {
        if (env.steps === 1) throw new EpisodeError("TASK", "broken");
        return step(action);
      };
      return env;
    };
    const result = await tokens(exactIds, { environmentFactory });
    expect(result).toMatchObject({ voided: true, failure: { class: "TASK" }, responseMasks: [0, 0, 0, 0, 0] });
  });

  it("cuts the row at the response limit", async () => {
    const result = await tokens(exactIds, { maxResponseLength: 4 });
    expect([result.responseTokens, result.responseMasks, result.logprobs.length]).toEqual([
      [7, 8, 3, 7],
      [1, 1, 0, 1],
      4,
    ]);
  });

  it("fails clearly at the first answer of a server that gives no ids", async () => {
    const { engine, client } = engineWith(() => ({}), { nParallelAgents: 1 });
    const many = Array.from({ length: 5 }, (_, i) => ({ id: `t${i}`, payload: {} }));
    await expect(engine.executeTasks(many, { mode: "Token" })).rejects.toThrow(
      /gave no token ids .* modes Text, Step or Conversation/,
    );
    expect(client.asked.length).toBeLessThanOrEqual(2);
  });

  it("refuses to make tokens of an episode that was played without", async () => {
    const [episode] = await engineWith(() => ({})).engine.executeTasks(TASKS);
    expect(() => toTokenResult(episode as NonNullable<typeof episode>)).toThrow(/step 0 has no token ids: play with/);
  });
});

describe("the other modes", () => {
  it("Text is the trajectory", async () => {
    const [result] = await engineWith(() => ({})).engine.executeTasks(TASKS, { mode: "Text" });
    expect(result).toMatchObject({ name: "agent", reward: 2, task: TASKS[0], terminationReason: "ENV_DONE" });
    expect(result?.steps.map(({ action }) => action)).toEqual(["a0", "a1"]);
  });

  it("Step has each turn and its return", async () => {
    const [result] = await engineWith(exactIds, { returnTokenIds: true }).engine.executeTasks(TASKS, { mode: "Step" });
    expect(result).toMatchObject({ trajectoryReward: 2, mcReturns: [1.5, 1] });
    expect(result?.steps[1]).toMatchObject({
      promptIds: [1, 2, 7, 8, 3],
      completionIds: [7, 8],
      logprobs: [-0.5, -0.25],
    });
  });

  it("Conversation is what was said, the last answer included", async () => {
    const [result] = await engineWith(() => ({})).engine.executeTasks(TASKS, { mode: "Conversation" });
    expect(result?.messages.map(({ content }) => content)).toEqual(["o0", "a0", "o1", "a1"]);
    expect(result?.isCumulative).toBe(true);
  });

  it("Conversation says when the agent kept no history", async () => {
    const agentFactory = () => Object.defineProperty(new EchoAgent(), "chatCompletions", { get: forgetful });
    function forgetful(this: EchoAgent) {
      return this.messages.slice(-1);
    }
    const [result] = await engineWith(() => ({}), { agentFactory }).engine.executeTasks(TASKS, {
      mode: "Conversation",
    });
    expect(result).toMatchObject({ isCumulative: false, messages: [{ content: "o1" }, { content: "a1" }] });
  });

  it("yields any of them in the order of completion", async () => {
    const many = Array.from({ length: 3 }, (_, i) => ({ id: `t${i}`, payload: {} }));
    const seen: number[] = [];
    for await (const { idx } of engineWith(() => ({})).engine.trajectoryGenerator(many, { mode: "Step" }))
      seen.push(idx);
    expect(seen.toSorted()).toEqual([0, 1, 2]);
  });

  it("voids by the deadline policy", async () => {
    const environmentFactory = () =>
      Object.assign(new CountingEnv(), { step: () => new Promise<never>(() => undefined) });
    const play = async (deadlinePolicy: "void" | "score" | "mask") => {
      const options = { environmentFactory, deadlinePolicy, trajectoryTimeoutMs: 30 };
      const [result] = await engineWith(() => ({}), options).engine.executeTasks(TASKS, { mode: "Text" });
      return [result?.failure.class, result?.voided, result?.masked];
    };
    expect(await play("void")).toEqual(["DEADLINE", true, false]);
    expect(await play("score")).toEqual(["DEADLINE", false, false]);
    expect(await play("mask")).toEqual(["DEADLINE", false, true]);
  });
});

describe("samples", () => {
  it("plays each task so often, in order, each with its own seed", async () => {
    const tasks = ["a", "b"].map((id) => ({ id, payload: {} }));
    const episodes = await engineWith(() => ({})).engine.executeTasks(tasks, { nSamples: 3 });
    expect(episodes.map(({ id }) => id)).toEqual(["a:0", "a:1", "a:2", "b:3", "b:4", "b:5"]);
    expect(new Set(episodes.map(({ seed }) => seed)).size).toBe(6);
  });

  it("begins no episode before there is a place for it", async () => {
    let open = 0;
    let peak = 0;
    const environmentFactory = () => {
      peak = Math.max(peak, (open += 1));
      return Object.assign(new CountingEnv(1), { close: () => void (open -= 1) });
    };
    const tasks = Array.from({ length: 50 }, (_, i) => ({ id: `t${i}`, payload: {} }));
    const { engine } = engineWith(() => ({}), { environmentFactory, nParallelAgents: 4 });
    expect(await engine.executeTasks(tasks)).toHaveLength(50);
    expect(peak).toBeLessThanOrEqual(4);
  });
});
