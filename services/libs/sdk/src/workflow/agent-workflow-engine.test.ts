// SPDX-License-Identifier: Apache-2.0
import { deriveSeed, sleep } from "@whetstone/core";
import { describe, expect, it } from "vitest";
import { CountingEnv, EchoAgent, ScriptedClient } from "../../test-support/stand-ins.ts";
import { answer, REQUEST, ASK, type Run, workflowOf, play, shape } from "../../test-support/workflows.ts";
import {
  AgentWorkflowEngine,
  createStep,
  EpisodeError,
  type RolloutClient,
  TerminationEvent,
  Workflow,
} from "../index.ts";

describe("roles", () => {
  it("makes a trajectory of each commit, then one a role of what nobody committed", async () => {
    const episode = await play(async (flow) => {
      const [first, second] = await Promise.all([flow.chat("solver", ASK), flow.chat("solver", ASK)]);
      await flow.chat("judge", ASK);
      flow.commit("solver", [second.step], 1);
      flow.commit("solver", [first.step], -0.5);
      await flow.chat("judge", ASK);
    });
    expect(shape(episode)).toEqual([
      ["t0", "solver", 1, ["c1"]],
      ["t1", "solver", -0.5, ["c0"]],
      ["t2", "judge", 0, ["c2", "c3"]],
    ]);
    expect(episode).toMatchObject({ reward: 0.5, isCorrect: true, terminationReason: "ENV_DONE", tries: 1 });
    expect(episode.metrics).toEqual({ solver_acc: 0.25, judge_acc: 0 });
  });

  it("asks the role's own model, under the role's name", async () => {
    const [policy, judge] = [new ScriptedClient(), new ScriptedClient()];
    const run: Run = async (flow) => {
      await flow.chat("solver", ASK);
      await flow.chat("judge", ASK, { maxTokens: 3, sampling: { temperature: 0 } });
    };
    const samplingParams = { temperature: 1, topP: 0.5 };
    await play(run, { rolloutClient: policy, rolloutClients: { judge }, samplingParams });
    expect(policy.asked.map(({ options }) => options.role)).toEqual(["solver"]);
    expect(judge.asked[0]?.options).toMatchObject({ maxTokens: 3, sampling: { temperature: 0, topP: 0.5 } });
    expect([policy.finished, judge.finished]).toEqual([1, 1]);
  });

  it("seeds calls by role and order, whatever the other roles do", async () => {
    const client = new ScriptedClient();
    await play((flow) => Promise.all([flow.chat("a", ASK), flow.chat("b", ASK), flow.chat("a", ASK)]), {
      rolloutClient: client,
    });
    const expected = [deriveSeed(7, "a", 0), deriveSeed(7, "b", 0), deriveSeed(7, "a", 1)];
    expect(client.asked.map(({ options }) => options.seed)).toEqual(expected);
  });

  it("gives each client only the steps that it answered", async () => {
    const seen: string[][] = [];
    const clientOf = (prefix: string): RolloutClient => ({
      chat: async () => answer({ callId: `${prefix}0` }),
      finish: (steps) => void seen.push(steps.map(({ callId }) => callId)),
    });
    const run: Run = async (flow) => {
      await flow.chat("judge", ASK);
      await flow.chat("solver", ASK);
      flow.commit("extra", [createStep({ callId: "made up" })]);
    };
    await play(run, { rolloutClient: clientOf("p"), rolloutClients: { judge: clientOf("j") } });
    expect(seen).toEqual([["p0"], ["j0"]]);
  });

  it("collects agents held in public fields", async () => {
    class Held extends Workflow {
      readonly agent = new EchoAgent();
      run(): void {
        this.agent.updateFromEnv("o");
        this.agent.updateFromModel("r");
      }
    }
    const episode = await new AgentWorkflowEngine({ rolloutClient: new ScriptedClient(), workflow: Held }).runEpisode(
      REQUEST,
    );
    expect(episode.trajectories.map(({ name, steps }) => [name, steps[0]?.modelResponse])).toEqual([["agent", "r"]]);
  });
});

describe("rewards", () => {
  it("shapes step rewards after the trajectory's reward is known", async () => {
    class Shaped extends Workflow {
      override readonly gamma = 0.5;
      override readonly rewardBonusCoeff = 2;
      run(): void {
        this.commit(
          "agent",
          [1, 3, 2].map((reward) => createStep({ reward })),
        );
      }
    }
    const options = { rolloutClient: new ScriptedClient(), workflow: Shaped, gamma: 1 };
    const [trajectory] = (await new AgentWorkflowEngine(options).runEpisode(REQUEST)).trajectories;
    // Bonus: 1, 3 + 2·(3−1), 2 + 2·(2−3) = 1, 7, 0; returns at 0.5: 4.5, 7, 0.
    expect(trajectory?.reward).toBe(6);
    expect(trajectory?.steps.map(({ reward, mcReturn }) => [reward, mcReturn])).toEqual([
      [4.5, 6],
      [7, 5],
      [0, 2],
    ]);
  });

  it("takes verdicts of environments over rewards, and the workflow's over both", async () => {
    const verdict = createStep({ reward: 1, info: { success: false } });
    const run: Run = (flow) => void flow.commit("agent", [verdict]);
    expect((await play(run)).isCorrect).toBe(false);
    const sure: Run = (flow, context, task) => {
      void run(flow, context, task);
      return { isCorrect: true, metrics: { extra: 2 }, reward: 5 };
    };
    expect(await play(sure)).toMatchObject({ isCorrect: true, reward: 5, metrics: { agent_acc: 1, extra: 2 } });
  });
});

describe("environments", () => {
  it("opens the job's, one by kind, a class, a factory; closes all of them", async () => {
    const made: CountingEnv[] = [];
    class Counted extends CountingEnv {
      constructor() {
        super();
        made.push(this);
      }
    }
    const seen: unknown[] = [];
    const run: Run = async (_flow, { openEnvironment }) => {
      const own = await openEnvironment(undefined, { c: 3 });
      expect(await own.reset()).toMatchObject({ observation: "o0" });
      expect(await own.step("x")).toMatchObject({ reward: 1 });
      await own.close();
      await openEnvironment("named", { n: 1 });
      await openEnvironment(Counted);
      await openEnvironment((args) => {
        seen.push(args);
        return new Counted();
      });
    };
    const make = (args: unknown) => {
      seen.push(args);
      return new Counted();
    };
    const named = {
      form: "environment",
      kind: "named",
      description: "",
      argsSchema: {},
      seedable: true,
      create: make,
    } as const;
    await play(run, { environmentFactory: make, environmentArgs: { a: 1 }, environments: [named] });
    expect(seen).toEqual([{ a: 1, question: "?", c: 3 }, { n: 1 }, {}]);
    expect(made.map(({ closed }) => closed)).toEqual([1, 1, 1, 1]);
  });

  it("is a broken task to open what is not there", async () => {
    const unknown = await play((_flow, { openEnvironment }) => openEnvironment("x"));
    expect(unknown.failure).toMatchObject({ class: "TASK", phase: "reset" });
    const none = await play((_flow, { openEnvironment }) => openEnvironment());
    expect(none.failure.message).toMatch(/names none/);
  });

  it("closes what arrives after the end", async () => {
    const env = new CountingEnv();
    const late: Run = (_flow, { openEnvironment }) => openEnvironment(() => sleep(40).then(() => env));
    expect((await play(late, { trajectoryTimeoutMs: 20 })).terminationReason).toBe("DEADLINE");
    await expect.poll(() => env.closed).toBe(1);
  });
});

describe("sub-workflows", () => {
  const Child = workflowOf(async (flow, _context, task) => {
    const { step } = await flow.chat("child", ASK);
    flow.commit("child", [step], Number(task.payload["reward"]));
    await flow.chat("left over", ASK);
    throw new TerminationEvent("MAX_TURNS");
  });

  it("join the parent: trajectories, uids, and what the parent rewards later", async () => {
    const episode = await play(async (flow) => {
      const { step } = await flow.chat("parent", ASK);
      flow.commit("parent", [step], 1);
      const child = await flow.runWorkflow(new Child(), { id: "c", payload: { reward: 2 } });
      expect(child).toMatchObject({ reward: 2, isCorrect: true });
      const [, other] = child.trajectories;
      if (other?.steps[0]) other.steps[0].reward = 4;
    });
    expect(episode.terminationReason).toBe("ENV_DONE");
    expect(shape(episode)).toEqual([
      ["t0", "parent", 1, ["c0"]],
      ["t1", "child", 2, ["c1"]],
      ["t2", "left over", 4, ["c2"]],
    ]);
  });

  it("let failures pass to the parent, who may go on", async () => {
    const Broken = workflowOf(() => {
      throw new EpisodeError("ENVIRONMENT", "gone");
    });
    const caught: Run = (flow) => flow.runWorkflow(new Broken()).then(undefined, () => undefined);
    expect((await play(caught)).failure.class).toBe("NONE");
    const passed: Run = (flow) => flow.runWorkflow(new Broken());
    expect((await play(passed, { retryLimit: 0 })).failure.class).toBe("ENVIRONMENT");
  });
});
