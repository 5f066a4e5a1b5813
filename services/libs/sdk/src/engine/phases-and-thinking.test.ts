// SPDX-License-Identifier: Apache-2.0
import { describe, expect, it } from "vitest";
import { CountingEnv, EchoAgent, hang, ScriptedClient } from "../../test-support/stand-ins.ts";
import {
  AgentExecutionEngine,
  type AgentExecutionEngineOptions,
  type ChatOptions,
  type Environment,
  type EpisodeRun,
  type FailureClass,
  type ToolSpec,
} from "../index.ts";

const REQUEST = { id: "e", task: { id: "t", payload: {} }, seed: 1 };
const instant = { now: Date.now, monotonicMs: () => performance.now(), sleep: () => Promise.resolve() };

function engineWith(options: Partial<AgentExecutionEngineOptions>): AgentExecutionEngine {
  return new AgentExecutionEngine({
    rolloutClient: new ScriptedClient(),
    agentFactory: () => new EchoAgent(),
    environmentFactory: () => new CountingEnv(),
    clock: instant,
    ...options,
  });
}

describe("bounds of phases", () => {
  type Bounded = "reset" | "model" | "step" | "reward";
  const CLASS: Record<Bounded, FailureClass> = {
    reset: "ENVIRONMENT",
    model: "INFRASTRUCTURE",
    step: "ENVIRONMENT",
    reward: "GRADER",
  };

  it.each(Object.entries(CLASS) as [Bounded, FailureClass][])(
    "%s → %s, retried by its class",
    async (phase, expected) => {
      let hangs = 0;
      const closed: number[] = [];
      const signals: AbortSignal[] = [];
      const hangTwice = (otherwise: () => unknown) => (_first: unknown, second?: { signal?: AbortSignal }) => {
        if (second?.signal) signals.push(second.signal);
        return (hangs += 1) <= 2 ? hang() : otherwise();
      };
      const client = new ScriptedClient();
      const chat = client.chat.bind(client);
      const environmentFactory = (): Environment => {
        const env = new CountingEnv(1);
        const reset = () => CountingEnv.prototype.reset.call(env);
        const step = () => CountingEnv.prototype.step.call(env, "");
        const close = () => void closed.push(1);
        if (phase === "reset") return Object.assign(env, { close, reset: hangTwice(reset) });
        if (phase === "step") return Object.assign(env, { close, step: hangTwice(step) });
        if (phase === "reward") return Object.assign(env, { close, computeFinalReward: hangTwice(() => 7) });
        return Object.assign(env, { close });
      };
      if (phase === "model") {
        let calls = 0;
        client.chat = (messages, options) => {
          signals.push(options.signal);
          return (calls += 1) <= 2 ? hang() : chat(messages, options);
        };
      }
      const engine = engineWith({ rolloutClient: client, environmentFactory, phaseTimeoutsMs: { [phase]: 25 } });
      const episode = await engine.runEpisode(REQUEST);
      expect(episode).toMatchObject({ terminationReason: "ENV_DONE", tries: 3, failure: { class: "NONE" } });
      expect(closed).toHaveLength(3);
      for (const signal of signals.slice(0, 2)) expect(signal.reason).toMatchObject({ failureClass: expected });
      const once = engineWith({
        rolloutClient: client,
        environmentFactory,
        phaseTimeoutsMs: { [phase]: 25 },
        retryLimit: 0,
      });
      hangs = 0;
      if (phase === "model") client.chat = () => hang();
      const failed = await once.runEpisode(REQUEST);
      expect(failed).toMatchObject({
        terminationReason: "ERROR",
        failure: { class: expected, phase, code: "DEADLINE_EXCEEDED" },
      });
      expect(failed.failure.message).toBe(`${phase} took longer than its 25 ms (phaseTimeoutsMs.${phase})`);
    },
  );

  it("stop the work: the phase's own signal is aborted", async () => {
    let stopped = 0;
    const environmentFactory = (_args: unknown, run: EpisodeRun) => {
      run.signal.addEventListener("abort", () => (stopped += 1));
      return Object.assign(new CountingEnv(), { step: hang });
    };
    await engineWith({ environmentFactory, phaseTimeoutsMs: { step: 20 }, retryLimit: 1 }).runEpisode(REQUEST);
    expect(stopped).toBe(2);
  });

  it("count opening and resetting as one", async () => {
    const slow = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms));
    const environmentFactory = async () => {
      await slow(60);
      const env = new CountingEnv();
      const reset = env.reset.bind(env);
      return Object.assign(env, { reset: () => slow(60).then(reset) });
    };
    const play = (reset: number) =>
      engineWith({ environmentFactory, phaseTimeoutsMs: { reset }, retryLimit: 0 }).runEpisode(REQUEST);
    expect((await play(100)).failure).toMatchObject({ class: "ENVIRONMENT", phase: "reset" });
    expect((await play(5_000)).failure.class).toBe("NONE");
  });

  it("never outlast the one deadline", async () => {
    const environmentFactory = () => Object.assign(new CountingEnv(), { step: hang });
    const options = { environmentFactory, phaseTimeoutsMs: { step: 60_000 }, trajectoryTimeoutMs: 30 };
    expect(await engineWith(options).runEpisode(REQUEST)).toMatchObject({ terminationReason: "DEADLINE", tries: 1 });
  });

  it("bound closing, too, and tell the model server", async () => {
    const client = new ScriptedClient();
    const environmentFactory = () => Object.assign(new CountingEnv(), { close: hang });
    const phaseTimeoutsMs = { close: 20, model: 5_000 };
    const startedAt = performance.now();
    const episode = await engineWith({ rolloutClient: client, environmentFactory, phaseTimeoutsMs }).runEpisode(
      REQUEST,
    );
    expect(performance.now() - startedAt).toBeLessThan(4_500);
    expect(episode).toMatchObject({ reward: 3, failure: { class: "NONE", phase: "close" } });
    expect(client.asked[0]?.options.remainingMs).toBe(5_000);
  });

  it.each([{ step: 0 }, { reward: Number.NaN }])("refuses %j", (phaseTimeoutsMs) => {
    expect(() => engineWith({ phaseTimeoutsMs })).toThrow(/phaseTimeoutsMs\.(step|reward) must be at least 1/);
  });
});

describe("thinking", () => {
  const asked = async (options: Partial<AgentExecutionEngineOptions>): Promise<(string | undefined)[]> => {
    const client = new ScriptedClient((call) => ({ text: `<think>t${call}</think>\n\na${call}` }));
    await engineWith({ rolloutClient: client, ...options }).runEpisode(REQUEST);
    return client.asked.at(-1)?.messages.map(({ content }) => content) ?? [];
  };

  it("stays in later prompts", async () => {
    expect(await asked({})).toEqual(["o0", "<think>t0</think>\n\na0", "o1", "<think>t1</think>\n\na1", "o2"]);
  });

  it("leaves later prompts when it is not accumulated; the steps keep it", async () => {
    expect(await asked({ accumulateThinking: false })).toEqual(["o0", "a0", "o1", "a1", "o2"]);
    const client = new ScriptedClient(() => ({ text: "<think>t</think>a" }));
    const episode = await engineWith({ rolloutClient: client, accumulateThinking: false }).runEpisode(REQUEST);
    expect(episode.trajectories[0]?.steps[0]?.modelResponse).toBe("<think>t</think>a");
  });

  it("asks the template for none", async () => {
    const client = new ScriptedClient();
    await engineWith({ rolloutClient: client, disableThinking: true }).runEpisode(REQUEST);
    expect(client.asked[0]?.options.chatTemplateKwargs).toEqual({ enable_thinking: false });
  });

  it("that the server takes out of the text is the step's thought", async () => {
    const client = new ScriptedClient(() => ({ reasoning: "hm" }));
    const episode = await engineWith({ rolloutClient: client }).runEpisode(REQUEST);
    expect(episode.trajectories[0]?.steps[0]).toMatchObject({
      thought: "hm",
      chatCompletions: [
        { role: "user", content: "o0" },
        { role: "assistant", content: "a0", reasoning: "hm" },
      ],
    });
  });
});

describe("tools", () => {
  it("of the agent go with each call; parsed calls come back to it", async () => {
    const tool: ToolSpec = { type: "function", function: { name: "add", parameters: { type: "object" } } };
    const toolCalls = [{ id: "k", name: "add", argumentsJson: "{}" }];
    const client = new ScriptedClient(() => ({ toolCalls }));
    const seen: unknown[] = [];
    class ToolUser extends EchoAgent {
      override tools() {
        return [tool];
      }

      override updateFromModel(response: string, answer?: { toolCalls?: unknown }) {
        seen.push(answer?.toolCalls);
        return super.updateFromModel(response);
      }
    }
    await engineWith({ rolloutClient: client, agentFactory: () => new ToolUser() }).runEpisode(REQUEST);
    const options = client.asked.map((call): ChatOptions => call.options);
    expect(options.map(({ tools }) => tools)).toEqual([[tool], [tool], [tool]]);
    expect(seen).toEqual([toolCalls, toolCalls, toolCalls]);
  });
});
