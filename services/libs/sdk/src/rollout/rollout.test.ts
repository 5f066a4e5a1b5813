// SPDX-License-Identifier: Apache-2.0
import { sleep } from "@whetstone/core";
import { describe, expect, it } from "vitest";
import { CountingEnv, ScriptedClient } from "../../test-support/stand-ins.ts";
import {
  AgentWorkflowEngine,
  type AgentWorkflowEngineOptions,
  createStep,
  createTrajectory,
  defineRollout,
  type Episode,
  type RolloutInput,
  type RolloutResult,
  type Trajectory,
} from "../index.ts";

const ENDPOINT = { baseUrl: "http://model/v1", apiKey: "k", model: "m" };
const REQUEST = { id: "t:0", task: { id: "t", payload: { q: 1 } }, seed: 7 };

function play(
  run: (input: RolloutInput) => RolloutResult | Promise<RolloutResult>,
  options: Partial<AgentWorkflowEngineOptions> = {},
): Promise<Episode> {
  const workflow = defineRollout({ kind: "mine", run });
  const rolloutClient = Object.assign(new ScriptedClient(), { endpoint: ENDPOINT });
  return new AgentWorkflowEngine({ rolloutClient, retryLimit: 0, workflow, ...options }).runEpisode(REQUEST);
}

/** Pays 2 for "right". */
class Grader extends CountingEnv {
  override step(action: unknown) {
    this.steps += 1;
    const success = action === "right";
    return { observation: "", reward: success ? 2 : 0, terminated: true, truncated: false, info: { success } };
  }
}

describe("a function", () => {
  it("gets the task, the model's address and its bounds", async () => {
    let seen: RolloutInput | undefined;
    const before = Date.now();
    await play((input) => ((seen = input), 1), { workflowArgs: { a: 1 }, trajectoryTimeoutMs: 60_000 });
    expect(seen).toMatchObject({ ...ENDPOINT, task: REQUEST.task, args: { a: 1 }, seed: 7, episodeId: "t:0", try: 1 });
    expect(seen?.signal.aborted).toBe(true); // Now that it is over.
    expect((seen?.deadline ?? 0) - before).toBeGreaterThan(59_000);
  });

  it("a number is the reward", async () => {
    const episode = await play(() => 0.5);
    expect(episode).toMatchObject({ reward: 0.5, isCorrect: true, terminationReason: "ENV_DONE" });
    expect(episode.trajectories.map(({ name, reward }) => [name, reward])).toEqual([["agent", 0.5]]);
  });

  it("a report has its own word on correctness, metrics and trajectories", async () => {
    const solver = createTrajectory({ name: "solver", steps: [createStep({ modelResponse: "x", reward: 1 })] });
    const judge = createTrajectory({ name: "judge", reward: 3, steps: [createStep({}), createStep({})] });
    const trajectories = [solver, judge, createTrajectory({ name: "silent", reward: 2 })];
    const episode = await play(() => ({ reward: 9, isCorrect: false, metrics: { n: 2 }, trajectories }));
    expect(episode).toMatchObject({ reward: 9, isCorrect: false, metrics: { n: 2, solver_acc: 1, judge_acc: 3 } });
    expect(episode.trajectories.map(({ name, reward, steps }) => [name, reward, steps.length])).toEqual([
      ["solver", 1, 1],
      ["judge", 3, 2],
      ["silent", 2, 1],
    ]);
  });

  it("may return an episode, whose reward is that of its trajectories", async () => {
    const inner = await play(() => 0.5);
    expect((await play(() => inner)).reward).toBe(0.5);
    const { trajectories } = inner;
    expect((await play(() => ({ trajectories }))).reward).toBe(0.5);
  });

  it.each<[string, object, RolloutResult, number[]]>([
    ["an environment scores", { environmentFactory: () => new Grader() }, { output: "right" }, [0.5, 1.5]],
    ["a rollout knows", {}, { reward: 3 }, [0.5, 2.5]],
    ["its steps alone tell", {}, {}, [0.5, 0.25]],
  ])("the step rewards of the only trajectory add up to what %s", async (_, options, result, rewards) => {
    const steps = [createStep({ reward: 0.5 }), createStep({ reward: 0.25 })];
    const report = { ...(result as object), trajectories: [createTrajectory({ steps })] };
    const episode = await play(() => report, { gamma: 1, ...options });
    const [first = 0, last = 0] = rewards;
    expect(episode.reward).toBe(first + last);
    expect(episode.trajectories).toMatchObject([
      {
        reward: first + last,
        steps: [
          { reward: first, mcReturn: first + last },
          { reward: last, mcReturn: last },
        ],
      },
    ]);
  });

  it("what a trajectory's reward says beyond those of its steps goes to the last one", async () => {
    const steps = [{ reward: 0.5 }, { reward: 0.25 }];
    const trajectories = [
      { name: "solver", reward: 2, steps },
      { name: "judge", reward: 0, steps },
    ] as unknown as Trajectory[];
    const episode = await play(() => ({ reward: 9, trajectories }));
    expect(episode.reward).toBe(9);
    expect(episode.trajectories.map(({ reward, steps }) => [reward, ...steps.map((step) => step.reward)])).toEqual([
      [2, 0.5, 1.5],
      [0.75, 0.5, 0.25], // 0 is what one has that says nothing
    ]);
  });

  it.each([
    ["right", 2, true],
    ["wrong", 0, false],
  ])("the environment scores the output %s", async (output, reward, isCorrect) => {
    const env = new Grader();
    const episode = await play(() => ({ output, reward: 7 }), { environmentFactory: () => env });
    expect([episode.reward, episode.isCorrect, env.resets, env.steps, env.closed]).toEqual([
      reward,
      isCorrect,
      1,
      1,
      1,
    ]);
    expect(episode.trajectories[0]?.steps[0]).toMatchObject({ modelResponse: output, action: output, reward });
  });

  it("takes a final reward of the environment", async () => {
    const env = Object.assign(new Grader(), { computeFinalReward: () => 5 });
    expect((await play(() => ({ output: "x" }), { environmentFactory: () => env })).reward).toBe(5);
  });

  it("scores itself where it gave no output", async () => {
    const env = new Grader();
    expect((await play(() => 3, { environmentFactory: () => env })).reward).toBe(3);
    expect(env.resets).toBe(0);
  });

  it.each([
    [{}, "no reward"],
    ["text", "it must be a number, or an object"],
    [Number.NaN, "reward must be a finite number"],
    [{ reward: "1" }, "reward must be a finite number"],
    [{ reward: 1, isCorrect: 1 }, "isCorrect must be true or false"],
    [{ reward: 1, metrics: { a: "b" } }, "metrics.a must be a finite number"],
    [{ reward: 1, trajectories: {} }, "trajectories must be a list"],
    [{ reward: 1, trajectories: [{ steps: [{ reward: "x" }] }] }, "trajectories[0].steps[0].reward must be"],
    [{ reward: 1, trajectories: [{ name: 3 }] }, "trajectories[0].name must be a role"],
  ])("says what is wrong with %j", async (result, reason) => {
    const { failure } = await play(() => result as RolloutResult);
    expect([failure.class, failure.message]).toEqual(["TASK", expect.stringContaining(reason)]);
  });

  it("that throws is a broken task; one that loses its connection is played again", async () => {
    const own = await play(() => Promise.reject(new Error("mine")));
    expect(own.failure).toMatchObject({ class: "TASK", message: "the rollout failed: mine" });
    let calls = 0;
    const lost = (): number => {
      if ((calls += 1) === 1) throw Object.assign(new Error("reset"), { code: "ECONNRESET" });
      return 1;
    };
    expect(await play(lost, { retryLimit: 1 })).toMatchObject({ tries: 2, reward: 1, failure: { class: "NONE" } });
  });

  it("ends at its deadline, listening or not", async () => {
    const episode = await play(() => sleep(60_000).then(() => 1), { trajectoryTimeoutMs: 20 });
    expect(episode).toMatchObject({ terminationReason: "DEADLINE", reward: 0 });
  });

  it("needs a client with an address", async () => {
    const { failure } = await play(() => 1, { rolloutClient: new ScriptedClient() });
    expect([failure.class, failure.code]).toEqual(["TASK", "UNSUPPORTED_SETTING"]);
  });
});
