// SPDX-License-Identifier: Apache-2.0
import { describe, expect, it } from "vitest";
import { EchoAgent, ScriptedClient } from "../test-support/stand-ins.ts";
import { impatient, play as playWorkflow, REQUEST } from "../test-support/workflows.ts";
import {
  AgentExecutionEngine,
  BaseEnv,
  combineRewards,
  createStep,
  type Environment,
  type Episode,
  type RewardFunction,
  SingleTurnEnvironment,
} from "./index.ts";

interface Returned {
  readonly reset?: unknown;
  readonly step?: unknown;
  readonly grade?: unknown;
}

const SEEN = { observation: "o", info: {} };
const LAST = { observation: "o", reward: 1, terminated: true, truncated: false, info: {} };

/** Returns what the test says, as code without types can. */
function environmentOf(returned: Returned): Environment {
  class Written extends BaseEnv {
    override reset() {
      return ("reset" in returned ? returned.reset : SEEN) as never;
    }
    override step() {
      return ("step" in returned ? returned.step : LAST) as never;
    }
  }
  const environment: Environment = new Written();
  if ("grade" in returned) environment.computeFinalReward = () => returned.grade as number;
  return environment;
}

function play(environment: () => Environment): Promise<Episode> {
  const engine = new AgentExecutionEngine({
    agentFactory: () => new EchoAgent(),
    environmentFactory: environment,
    rolloutClient: new ScriptedClient(),
    clock: impatient,
    maxSteps: 3,
  });
  return engine.runEpisode(REQUEST);
}

function cyclic(): object {
  const self: Record<string, unknown> = {};
  self["self"] = self;
  return self;
}

describe("what an environment returns", () => {
  const step = (fields: object): Returned => ({ step: { ...LAST, ...fields } });
  const cases: [name: string, returned: Returned, message: RegExp][] = [
    ["a reward NaN", step({ reward: Number.NaN }), /step\(\) returned reward NaN: .*finite number/],
    ["a reward Infinity", step({ reward: Infinity }), /step\(\) returned reward Infinity/],
    ["a reward in text", step({ reward: "1" }), /step\(\) returned reward "1"/],
    ["a reward null", step({ reward: null }), /step\(\) returned reward null/],
    ["a reward beyond any sum", step({ reward: 1e300 }), /step\(\) returned reward 1e\+300/],
    ["no reward at the end", step({ reward: undefined }), /step\(\) ended the episode without a reward/],
    ["no observation", step({ observation: undefined }), /step\(\) returned no observation/],
    ["an observation of NaN", step({ observation: { board: [1, Number.NaN] } }), /observation\.board\[1\] NaN/],
    ["an observation with a function", step({ observation: { f: () => 1 } }), /observation\.f a function/],
    ["an observation in a map", step({ observation: new Map() }), /observation an object \(Map\)/],
    ["an observation in itself", step({ observation: cyclic() }), /nested deeper than 24 levels, or in itself/],
    ["an info in itself", step({ info: cyclic() }), /info\.self\.self.*nested deeper/],
    ["an info with a bigint", step({ info: { n: 1n } }), /info\.n 1n \(a bigint\)/],
    ["an info in text", step({ info: "x" }), /returned info "x": it must be an object/],
    ["an end in text", step({ terminated: "false" }), /returned terminated "false": it must be true or false/],
    ["nothing from step", { step: undefined }, /step\(\) returned undefined: it must be an object/],
    ["nothing from reset", { reset: undefined }, /reset\(\) returned undefined: it must be an object/],
    ["a promise of nothing from reset", { reset: Promise.resolve() }, /reset\(\) returned undefined/],
    ["an observation alone from reset", { reset: "o" }, /reset\(\) returned "o": it must be an object/],
    ["no observation from reset", { reset: { info: {} } }, /reset\(\) returned no observation/],
  ];

  it.each(cases)("%s fails the episode as ENVIRONMENT and names it", async (_name, returned, message) => {
    const { failure, reward } = await play(() => environmentOf(returned));
    expect(failure).toMatchObject({ class: "ENVIRONMENT", message: expect.stringMatching(message) as string });
    expect(reward).toBe(0);
  });

  it.each([Number.NaN, Infinity, "1", undefined, null])("a final reward %j is a GRADER failure", async (grade) => {
    const { failure } = await play(() => environmentOf({ grade }));
    expect(failure).toMatchObject({
      class: "GRADER",
      message: expect.stringContaining("computeFinalReward() returned") as string,
    });
  });

  it("may lack what the engine can fill in", async () => {
    const later = { ...LAST, reward: undefined };
    expect(await play(() => environmentOf({ step: later, grade: 2 }))).toMatchObject({ reward: 2 });
    const bare = { reset: { observation: "o" }, step: { observation: null, reward: 1, terminated: true } };
    expect(await play(() => environmentOf(bare))).toMatchObject({ reward: 1, failure: { class: "NONE" } });
  });

  it("fails an agent that writes NaN to its own step", async () => {
    class Spoiler extends EchoAgent {
      override updateFromEnv(observation: unknown): void {
        const last = this.trajectory.steps.at(-1);
        if (last) last.reward = Number.NaN;
        super.updateFromEnv(observation);
      }
    }
    const engine = new AgentExecutionEngine({
      agentFactory: () => new Spoiler(),
      environmentFactory: () => environmentOf({}),
      rolloutClient: new ScriptedClient(),
    });
    const { failure } = await engine.runEpisode(REQUEST);
    expect(failure).toMatchObject({
      class: "TASK",
      message: "the agent gave step 1 reward NaN: it must be a finite number",
    });
  });
});

describe("what a reward function returns", () => {
  const graded = (returned: unknown): Promise<Episode> => {
    const rewardFunction = (() => returned) as unknown as RewardFunction;
    return play(() => new SingleTurnEnvironment({ task: { question: "?" }, rewardFunction }));
  };
  it.each([
    [undefined, /returned undefined/],
    [1, /returned 1: it must be \{ reward/],
    [{ reward: "1", isCorrect: true, metadata: {} }, /returned reward "1"/],
    [{ reward: Number.NaN, isCorrect: true, metadata: {} }, /returned reward NaN/],
    [{ reward: 1, metadata: {} }, /returned isCorrect undefined/],
  ])("%j is a GRADER failure that names it", async (returned, message) => {
    const { failure } = await graded(returned);
    expect(failure).toMatchObject({ class: "GRADER", message: expect.stringMatching(message) as string });
  });

  it("is named by its part in a weighted sum", async () => {
    const rewardFunction = combineRewards([
      { name: "style", weight: 1, rewardFunction: () => ({ reward: Number.NaN, isCorrect: true, metadata: {} }) },
    ]);
    const { failure } = await play(() => new SingleTurnEnvironment({ task: { question: "?" }, rewardFunction }));
    expect(failure.message).toContain('the reward function "style" returned reward NaN');
  });
});

describe("what a workflow shapes", () => {
  const committed = (reward: unknown) => (flow: { commit: (role: string, steps: object[]) => unknown }) => {
    flow.commit("solver", [createStep({ reward: reward as number })]);
  };
  it.each([Number.NaN, Infinity, "1", null])("a step's reward %j is a broken task", async (reward) => {
    const { failure, reward: total } = await playWorkflow(committed(reward) as never);
    expect(failure.class).toBe("TASK");
    expect(failure.message).toMatch(
      /the workflow, in its role "solver", gave step 1 reward .*: it must be a finite number/,
    );
    expect(Number.isFinite(total)).toBe(true);
  });

  it.each([
    [{ reward: Number.NaN }, /returned reward NaN/],
    [{ isCorrect: "yes" }, /returned isCorrect "yes"/],
    [{ metrics: { loss: Infinity } }, /returned metrics\.loss Infinity/],
  ])("a result %j is a broken task", async (result, message) => {
    const { failure } = await playWorkflow(() => result);
    expect(failure).toMatchObject({ class: "TASK", message: expect.stringMatching(message) as string });
  });

  it("an environment opened by hand is checked as any", async () => {
    const { failure } = await playWorkflow(async (flow) => {
      const environment = await flow.openEnvironment(() => environmentOf({ step: { ...LAST, reward: Number.NaN } }));
      await environment.reset();
      await environment.step("x");
    });
    expect(failure).toMatchObject({ class: "ENVIRONMENT", phase: "step" });
  });
});
