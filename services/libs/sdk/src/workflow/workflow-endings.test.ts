// SPDX-License-Identifier: Apache-2.0
import { sleep } from "@whetstone/core";
import { describe, expect, it } from "vitest";
import { CountingEnv, EchoAgent, hang, ScriptedClient } from "../../test-support/stand-ins.ts";
import {
  answer,
  TASK,
  REQUEST,
  ASK,
  type Run,
  workflowOf,
  engineWith,
  play,
  shape,
} from "../../test-support/workflows.ts";
import {
  AgentWorkflowEngine,
  type ChatMessage,
  defineWorkflow,
  type Episode,
  EpisodeError,
  PromptTooLongError,
  type RolloutClient,
  type Task,
  TerminationEvent,
  Workflow,
} from "../index.ts";

describe("endings and failures", () => {
  const scored = { class: "NONE", tries: 1 };
  const retried = { class: "INFRASTRUCTURE", tries: 3 };
  const refused = new TypeError("fetch failed", { cause: { code: "ECONNREFUSED" } });
  it.each([
    ["TerminationEvent", new TerminationEvent("MAX_RESPONSE_LENGTH"), { reason: "MAX_RESPONSE_LENGTH", ...scored }],
    ["a prompt that is too long", new PromptTooLongError("long"), { reason: "MAX_PROMPT_LENGTH", ...scored }],
    ["the policy's fault", new EpisodeError("POLICY", "unparsable"), { reason: "ERROR", class: "POLICY", tries: 1 }],
    ["the workflow's own code", new TypeError("x is undefined"), { reason: "ERROR", class: "TASK", tries: 1 }],
    ["a connection of its own", refused, { reason: "ERROR", ...retried }],
    ["a server that answers 503", Object.assign(new Error("busy"), { status: 503 }), { reason: "ERROR", ...retried }],
    ["a known class", new EpisodeError("GRADER", "judge"), { reason: "ERROR", class: "GRADER", tries: 3 }],
  ] as const)("%s", async (_name, thrown, expected) => {
    const episode = await play(async (flow) => {
      const { step } = await flow.chat("agent", ASK);
      step.reward = 0.5;
      throw thrown;
    });
    const { terminationReason: reason, failure, tries } = episode;
    expect({ reason, class: failure.class, tries }).toEqual(expected);
    expect(episode.trajectories[0]?.reward).toBe(0.5);
  });

  it("knows the phase of what passed through the workflow, wrapped or not", async () => {
    const env = Object.assign(new CountingEnv(), { step: () => Promise.reject(new Error("broke")) });
    const run: Run = async (_flow, { openEnvironment }) => {
      const opened = await openEnvironment(() => env);
      await opened.step("x").catch((error: unknown) => Promise.reject(new Error("mine", { cause: error })));
    };
    expect((await play(run, { retryLimit: 0 })).failure).toMatchObject({
      class: "ENVIRONMENT",
      phase: "step",
      message: "broke",
    });
    const graded: Run = (_flow, { score }) => score(() => Promise.reject(new Error("no judge")));
    expect((await play(graded, { retryLimit: 0 })).failure).toMatchObject({ class: "GRADER", phase: "reward" });
  });

  it("plays again with a new instance", async () => {
    const instances = new Set<Workflow>();
    const episode = await play((flow, context) => {
      instances.add(flow);
      if (context.try < 3) throw new EpisodeError("INFRASTRUCTURE", "once more");
    });
    expect([instances.size, episode.tries, episode.failure.class]).toEqual([3, 3, "NONE"]);
  });

  it("ends at the deadline, aborts calls, keeps what there is, and shows nothing that is written later", async () => {
    const aborted: unknown[] = [];
    const client = new ScriptedClient();
    const hanging: RolloutClient = {
      chat: (_messages, { signal }) => {
        signal.addEventListener("abort", () => aborted.push(signal.reason));
        return hang();
      },
    };
    let write = (): void => undefined;
    const run: Run = async (flow) => {
      const { step } = await flow.chat("a", ASK);
      write = () => (step.reward = 9);
      await flow.chat("slow", ASK).catch(() => hang());
    };
    const rolloutClients = { slow: hanging };
    const episode = await play(run, { rolloutClient: client, rolloutClients, trajectoryTimeoutMs: 30 });
    write();
    expect(episode).toMatchObject({ terminationReason: "DEADLINE", failure: { class: "DEADLINE", phase: "model" } });
    expect(shape(episode)).toEqual([["t0", "a", 0, ["c0"]]]);
    expect(episode.trajectories[0]?.steps[0]?.reward).toBe(0);
    expect([aborted.length, client.abandoned]).toEqual([1, 1]);
  });

  it("aborts calls that nobody waits for when the workflow has ended", async () => {
    const abandoned = Promise.withResolvers<void>();
    const client: RolloutClient = {
      chat: (_messages, { signal }) => {
        signal.addEventListener("abort", () => abandoned.resolve());
        return hang();
      },
    };
    const run: Run = (flow) => void flow.chat("agent", ASK).catch(() => undefined);
    expect((await play(run, { rolloutClient: client })).terminationReason).toBe("ENV_DONE");
    await abandoned.promise;
  });

  it("is CANCELLED by its caller", async () => {
    const cancel = new AbortController();
    const running = engineWith(() => hang()).runEpisode(REQUEST, { signal: cancel.signal });
    cancel.abort();
    expect(await running).toMatchObject({ terminationReason: "CANCELLED", failure: { class: "NONE" } });
  });

  it("does not count a try whose client lost calls", async () => {
    const client = Object.assign(new ScriptedClient(), {
      finish: () => Promise.reject(new EpisodeError("INFRASTRUCTURE", "lost")),
    });
    const episode = await play((flow) => flow.chat("agent", ASK).then(() => undefined), { rolloutClient: client });
    expect([episode.failure.class, episode.tries]).toEqual(["INFRASTRUCTURE", 3]);
  });

  it("masks what the overlong filter says", async () => {
    const run: Run = () => {
      throw new TerminationEvent("MAX_TURNS");
    };
    expect((await play(run, { overlongFilter: true })).masked).toBe(true);
  });
});

describe("batches", () => {
  const sleepy: Run = async (_flow, _context, task) => {
    await sleep(Number(task.payload["ms"]));
    if (task.payload["fail"]) throw new TypeError("own fault");
  };
  const tasks = [30, 1, 15].map((ms, i) => ({ id: "same", payload: { ms, fail: i === 1 } }));

  it("come in the order of the tasks, also of one task; a failure ends nothing", async () => {
    const hooked: string[] = [];
    const onEpisode = ({ id }: Episode): void => {
      hooked.push(id);
      throw new Error("the hook's own trouble");
    };
    const logged: string[] = [];
    const log = (message: string): void => void logged.push(message);
    const episodes = await engineWith(sleepy, { onEpisode, log }).executeTasks(tasks);
    expect(episodes.map(({ id, failure }) => [id, failure.class])).toEqual([
      ["same:0", "NONE"],
      ["same:1", "TASK"],
      ["same:2", "NONE"],
    ]);
    expect([hooked, logged]).toEqual([["same:1", "same:2", "same:0"], Array(3).fill("onEpisode failed")]);
  });

  it("or in the order of completion; leaving cancels the rest", async () => {
    const order: string[] = [];
    for await (const { id } of engineWith(sleepy).episodeGenerator(tasks)) order.push(id);
    expect(order).toEqual(["same:1", "same:2", "same:0"]);
    const ended: string[] = [];
    const engine = engineWith(sleepy, { onEpisode: (episode) => void ended.push(episode.terminationReason) });
    for await (const _first of engine.episodeGenerator([...tasks, { id: "long", payload: { ms: 60_000 } }])) break;
    await expect.poll(() => ended.filter((reason) => reason === "CANCELLED").length).toBe(3);
  });

  it("keep to nParallelTasks", async () => {
    let [running, most] = [0, 0];
    const run: Run = async () => {
      most = Math.max(most, (running += 1));
      await sleep(2);
      running -= 1;
    };
    await engineWith(run, { nParallelTasks: 3 }).executeTasks(Array(10).fill(TASK) as Task[]);
    expect(most).toBe(3);
    expect(() => engineWith(run, { nParallelTasks: 0 })).toThrow(/nParallelTasks/);
  });

  it("1,000 at once share no state", async () => {
    class Counter extends Workflow {
      seen: number[] = [];
      readonly agent = new EchoAgent();
      async run(task: Task): Promise<void> {
        const own = Number(task.payload["n"]);
        for (let turn = 0; turn < 3; turn += 1) {
          const content = `${own}/${turn}`;
          const { text, step } = await this.chat(`role${own % 3}`, [{ role: "user", content }]);
          await sleep(own % 5);
          this.seen.push(text === `re ${content}` ? own : Number.NaN);
          step.reward = own;
        }
        const { trajectory } = await this.playAgent(this.agent, { maxSteps: 2 });
        if (trajectory.steps.some(({ observation }) => !String(observation).startsWith(`${own}:`)))
          throw new Error("mixed");
        if (new Set(this.seen).size !== 1) throw new Error(`saw ${this.seen.join()}`);
      }
    }
    const client: RolloutClient = {
      chat: async (messages) => {
        await sleep(messages.length % 3);
        return answer({ text: `re ${messages.at(-1)?.content}` });
      },
    };
    class Named extends CountingEnv {
      readonly #name: unknown;
      constructor({ n }: { n: number }) {
        super(2);
        this.#name = n;
      }
      override reset() {
        return { observation: `${String(this.#name)}:reset`, info: {} };
      }
      override step(action: unknown) {
        const { terminated } = super.step(action) as { terminated: boolean };
        const mine = String(action).includes(`${String(this.#name)}:`);
        return {
          observation: `${String(this.#name)}:step`,
          reward: mine ? 1 : -1000,
          terminated,
          truncated: false,
          info: {},
        };
      }
    }
    const engine = new AgentWorkflowEngine({
      workflow: defineWorkflow({ kind: "counter", create: () => new Counter() }),
      rolloutClient: client,
      environmentFactory: (args) => new Named(args as { n: number }),
      nParallelTasks: 1000,
    });
    const many = Array.from({ length: 1000 }, (_, n) => ({ id: `t${n}`, payload: { n } }));
    const episodes = await engine.executeTasks(many);
    const wrong = episodes.filter(({ failure, reward }, n) => failure.class !== "NONE" || reward !== 3 * n + 2);
    expect(wrong.map(({ id, failure, reward }) => [id, failure.message, reward])).toEqual([]);
  });
});

describe("misuse", () => {
  it("refuses an instance that played already, and one that nobody plays", async () => {
    const one = new (workflowOf((flow) => flow.chat("agent", ASK).then(() => undefined)))();
    const workflow = defineWorkflow({ kind: "one", create: () => one });
    const engine = new AgentWorkflowEngine({ workflow, rolloutClient: new ScriptedClient() });
    expect((await engine.runEpisode(REQUEST)).failure.class).toBe("NONE");
    const again = await engine.runEpisode(REQUEST);
    expect([again.failure.class, again.failure.message]).toEqual(["TASK", expect.stringMatching(/plays once/)]);
    expect(() => new (workflowOf(() => undefined))().collectTrajectories()).toThrow(/not playing/);
  });
});

describe("what calls ask for", () => {
  it("the policy's server is asked for ids and thinking, other models are not", async () => {
    const ids = { promptIds: [1], completionIds: [2], logprobs: [-1], reasoning: "hm" };
    const [policy, judge] = [new ScriptedClient(() => ids), new ScriptedClient()];
    const history: ChatMessage[] = [...ASK, { role: "assistant", content: "<think>long</think>short" }, ...ASK];
    const run: Run = (flow) =>
      Promise.all([flow.chat("solver", history), flow.chat("judge", ASK)]).then(() => undefined);
    const settings = { returnTokenIds: true, disableThinking: true, accumulateThinking: false };
    const episode = await play(run, { rolloutClient: policy, rolloutClients: { judge }, ...settings });
    expect(episode.failure.class).toBe("NONE");
    expect(policy.asked[0]?.options).toMatchObject({
      returnTokenIds: true,
      chatTemplateKwargs: { enable_thinking: false },
    });
    expect(policy.asked[0]?.messages[1]?.content).toBe("short");
    expect(judge.asked[0]?.options).not.toHaveProperty("returnTokenIds");
    expect(episode.trajectories[0]?.steps[0]).toMatchObject({ promptIds: [1], completionIds: [2], thought: "hm" });
  });

  it("a policy without ids is a broken task where they were asked for", async () => {
    const { failure } = await play((flow) => flow.chat("a", ASK).then(() => undefined), { returnTokenIds: true });
    expect([failure.class, failure.code]).toEqual(["TASK", "UNSUPPORTED_SETTING"]);
  });
});
