// SPDX-License-Identifier: Apache-2.0
import { type Clock, deriveSeed, sleep, systemClock, WhetstoneError } from "@whetstone/core";
import { describe, expect, it } from "vitest";
import { CountingEnv, EchoAgent, ScriptedClient } from "../../test-support/stand-ins.ts";
import {
  AgentExecutionEngine,
  type AgentExecutionEngineOptions,
  type Episode,
  EpisodeError,
  PromptTooLongError,
} from "../index.ts";

const TASK = { id: "t", payload: {} };
const REQUEST = { id: "t:0", task: TASK, seed: 7 };

function engineWith(options: Partial<AgentExecutionEngineOptions> = {}): AgentExecutionEngine {
  return new AgentExecutionEngine({
    rolloutClient: new ScriptedClient(),
    agentFactory: () => new EchoAgent(),
    environmentFactory: () => new CountingEnv(),
    ...options,
  });
}

function stepsOf(episode: Episode) {
  return episode.trajectories[0]?.steps ?? [];
}

describe("the loop", () => {
  it("plays until the environment is done; the engine completes the steps", async () => {
    const client = new ScriptedClient();
    const env = new CountingEnv(2);
    const episode = await engineWith({ rolloutClient: client, environmentFactory: () => env, gamma: 0.5 }).runEpisode(
      REQUEST,
    );
    expect(episode).toMatchObject({ id: "t:0", terminationReason: "ENV_DONE", reward: 2, isCorrect: true, tries: 1 });
    expect(episode.failure.class).toBe("NONE");
    const facts = stepsOf(episode).map(({ callId, action, reward, done, mcReturn }) => ({
      callId,
      action,
      reward,
      done,
      mcReturn,
    }));
    expect(facts).toEqual([
      { callId: "c0", action: "a0", reward: 1, done: false, mcReturn: 1.5 },
      { callId: "c1", action: "a1", reward: 1, done: true, mcReturn: 1 },
    ]);
    expect(client.asked[1]?.messages.map(({ content }) => content)).toEqual(["o0", "a0", "o1"]);
    expect([env.resets, env.closed, client.finished, episode.finalObservation]).toEqual([1, 1, 1, "o2"]);
  });

  it("notes what was seen where the agent did not", async () => {
    class Forgetful extends EchoAgent {
      override updateFromModel(response: string) {
        const answer = super.updateFromModel(response);
        this.trajectory.steps.forEach((step) => (step.observation = undefined));
        return answer;
      }
    }
    const episode = await engineWith({ agentFactory: () => new Forgetful(), maxSteps: 1 }).runEpisode(REQUEST);
    expect(stepsOf(episode)[0]?.observation).toBe("o0");
  });

  it("ends with MAX_TURNS", async () => {
    const episode = await engineWith({ maxSteps: 2 }).runEpisode(REQUEST);
    expect([episode.terminationReason, stepsOf(episode).length]).toEqual(["MAX_TURNS", 2]);
  });

  it("seeds each call from the episode's seed and the call's index", async () => {
    const client = new ScriptedClient();
    await engineWith({ rolloutClient: client }).runEpisode(REQUEST);
    expect(client.asked.map(({ options }) => options.seed)).toEqual([0, 1, 2].map((i) => deriveSeed(7, i)));
  });

  it("takes the environment's verdict over the reward", async () => {
    const env = new CountingEnv(1);
    env.step = () => ({ observation: "", reward: 1, terminated: true, truncated: false, info: { success: false } });
    expect((await engineWith({ environmentFactory: () => env }).runEpisode(REQUEST)).isCorrect).toBe(false);
  });

  it("replaces the last step's reward by the final one", async () => {
    const env = Object.assign(new CountingEnv(2), { computeFinalReward: () => 5 });
    const episode = await engineWith({ environmentFactory: () => env }).runEpisode(REQUEST);
    expect([episode.reward, stepsOf(episode)[1]?.reward]).toEqual([6, 5]);
  });

  it("merges the task's payload over the environment's arguments", async () => {
    let seen: unknown;
    const environmentFactory = (args: unknown) => {
      seen = args;
      return new CountingEnv();
    };
    const engine = engineWith({ environmentFactory, environmentArgs: { a: 1, b: 1 } });
    await engine.runEpisode({ ...REQUEST, task: { id: "t", payload: { b: 2 } } });
    expect(seen).toEqual({ a: 1, b: 2 });
  });
});

describe("budgets, from the server's own counts", () => {
  it("gives each call what is left and ends with MAX_RESPONSE_LENGTH", async () => {
    const client = new ScriptedClient(() => ({ usage: { promptTokens: 10, completionTokens: 4 } }));
    const options = {
      rolloutClient: client,
      maxResponseLength: 10,
      maxSteps: 50,
      environmentFactory: () => new CountingEnv(50),
    };
    const episode = await engineWith(options).runEpisode(REQUEST);
    expect(client.asked.map(({ options: { maxTokens } }) => maxTokens)).toEqual([10, 6, 2]);
    expect(episode.terminationReason).toBe("MAX_RESPONSE_LENGTH");
  });

  it("counts what prompts add to the call before", async () => {
    const client = new ScriptedClient((call) => ({ usage: { promptTokens: 10 + 6 * call, completionTokens: 2 } }));
    await engineWith({ rolloutClient: client, maxResponseLength: 100 }).runEpisode(REQUEST);
    expect(client.asked.map(({ options }) => options.maxTokens)).toEqual([100, 98, 92]);
  });

  it("never asks for more than the sampling allows", async () => {
    const client = new ScriptedClient();
    await engineWith({ rolloutClient: client, samplingParams: { maxTokens: 3 } }).runEpisode(REQUEST);
    expect(client.asked[0]?.options.maxTokens).toBe(3);
  });

  it("ends with MAX_PROMPT_LENGTH without using the answer", async () => {
    const client = new ScriptedClient(() => ({ usage: { promptTokens: 11, completionTokens: 1 } }));
    const episode = await engineWith({ rolloutClient: client, maxPromptLength: 10 }).runEpisode(REQUEST);
    expect([episode.terminationReason, episode.trajectories.length]).toEqual(["MAX_PROMPT_LENGTH", 0]);
  });

  it("checks every prompt, and gives every answer the whole budget, when told so", async () => {
    const client = new ScriptedClient((call) => ({ usage: { promptTokens: 5 + 5 * call, completionTokens: 9 } }));
    const options = { rolloutClient: client, maxPromptLength: 10, maxResponseLength: 10, enforceMaxPromptLength: true };
    const episode = await engineWith(options).runEpisode(REQUEST);
    expect(client.asked.map(({ options: { maxTokens } }) => maxTokens)).toEqual([10, 10, 10]);
    expect([episode.terminationReason, stepsOf(episode).length]).toEqual(["MAX_PROMPT_LENGTH", 2]);
  });

  it("takes the server's refusal of a prompt as MAX_PROMPT_LENGTH, no failure", async () => {
    const client = new ScriptedClient((call) => {
      if (call === 1) throw new PromptTooLongError("too long");
      return {};
    });
    const episode = await engineWith({ rolloutClient: client }).runEpisode(REQUEST);
    expect([episode.terminationReason, episode.failure.class, client.finished]).toEqual([
      "MAX_PROMPT_LENGTH",
      "NONE",
      1,
    ]);
  });

  it("masks overlong episodes and gives them no final reward", async () => {
    let graded = 0;
    const env = Object.assign(new CountingEnv(9), { computeFinalReward: () => (graded += 1) });
    const options = { environmentFactory: () => env, maxSteps: 2, overlongFilter: true };
    const episode = await engineWith(options).runEpisode(REQUEST);
    expect([episode.masked, graded]).toEqual([true, 0]);
  });
});

/** A clock whose sleeps are instant, and noted. */
function fastClock(slept: number[]): Clock {
  return {
    ...systemClock,
    sleep: (ms, signal) => {
      slept.push(ms);
      return sleep(0, signal);
    },
  };
}

describe("retries", () => {
  it("plays again with a fresh agent and environment, backing off 500 ms, doubling", async () => {
    const made: CountingEnv[] = [];
    const slept: number[] = [];
    const environmentFactory = () => {
      const env = new CountingEnv();
      if (made.push(env) < 3) env.step = () => Promise.reject(new Error("passing fault"));
      return env;
    };
    const agents = new Set<EchoAgent>();
    const agentFactory = () => {
      const agent = new EchoAgent();
      agents.add(agent);
      return agent;
    };
    const engine = engineWith({ environmentFactory, agentFactory, clock: fastClock(slept) });
    const episode = await engine.runEpisode(REQUEST);
    expect(episode).toMatchObject({ terminationReason: "ENV_DONE", tries: 3, reward: 3 });
    expect(made.map(({ closed, resets }) => [closed, resets])).toEqual([
      [1, 1],
      [1, 1],
      [1, 1],
    ]);
    expect([slept, agents.size]).toEqual([[500, 1000], 3]);
  });

  it("ends with the failure when the limit is reached", async () => {
    const client = new ScriptedClient(() => {
      throw new Error("down");
    });
    const engine = engineWith({ rolloutClient: client, retryLimit: 1, clock: fastClock([]) });
    const episode = await engine.runEpisode(REQUEST);
    expect(episode).toMatchObject({ terminationReason: "ERROR", tries: 2, failure: { class: "INFRASTRUCTURE" } });
    expect([client.asked.length, client.abandoned]).toEqual([2, 2]);
  });

  it("scores what the policy itself got wrong, with the reward so far", async () => {
    const agent = new EchoAgent();
    const update = agent.updateFromModel.bind(agent);
    agent.updateFromModel = (response) => {
      const action = update(response);
      if (response === "a1") throw new EpisodeError("POLICY", "no action in the answer");
      return action;
    };
    const client = new ScriptedClient();
    const episode = await engineWith({ rolloutClient: client, agentFactory: () => agent }).runEpisode(REQUEST);
    expect(episode).toMatchObject({ terminationReason: "ERROR", failure: { class: "POLICY" }, reward: 1, tries: 1 });
    expect([stepsOf(episode).map(({ callId }) => callId), client.finished]).toEqual([["c0", "c1"], 1]);
  });

  it("keeps the failure, not the deadline, when time runs out between tries", async () => {
    const client = new ScriptedClient(() => {
      throw new WhetstoneError("UNAVAILABLE", "down");
    });
    const episode = await engineWith({ rolloutClient: client, trajectoryTimeoutMs: 100 }).runEpisode(REQUEST);
    expect(episode.failure).toMatchObject({ class: "INFRASTRUCTURE", code: "UNAVAILABLE" });
  });
});

describe("many", () => {
  const tasks = Array.from({ length: 20 }, (_, i) => ({ id: `t${i}`, payload: {} }));

  it("returns results in the order of the tasks; one failure ends nothing", async () => {
    let running = 0;
    let peak = 0;
    const environmentFactory = async (_args: unknown, run: { task: { id: string } }) => {
      peak = Math.max(peak, (running += 1));
      await sleep(Math.random() * 5);
      running -= 1;
      if (run.task.id === "t3") throw new EpisodeError("TASK", "broken");
      return new CountingEnv(1);
    };
    const episodes = await engineWith({ environmentFactory, nParallelAgents: 4 }).executeTasks(tasks);
    expect(episodes.map(({ task }) => task.id)).toEqual(tasks.map(({ id }) => id));
    expect(episodes.filter(({ failure }) => failure.class !== "NONE").map(({ task }) => task.id)).toEqual(["t3"]);
    expect(peak).toBe(4);
  });

  it("yields in the order of completion, and cancels the rest when the loop is left", async () => {
    const envs: CountingEnv[] = [];
    const environmentFactory = (_args: unknown, run: { task: { id: string } }) => {
      const env = new CountingEnv(1);
      envs.push(env);
      const step = env.step.bind(env);
      if (run.task.id !== "t5") env.step = () => sleep(60_000).then(() => step(""));
      return env;
    };
    for await (const episode of engineWith({ environmentFactory }).trajectoryGenerator(tasks)) {
      expect(episode.task.id).toBe("t5");
      break;
    }
    await expect.poll(() => envs.filter(({ closed }) => closed !== 1).length).toBe(0);
    expect(envs.length).toBeGreaterThanOrEqual(6); // Tasks t0 to t5; a busy machine may not have begun the others.
  });
});
