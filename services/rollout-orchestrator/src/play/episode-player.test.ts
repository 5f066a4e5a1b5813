// SPDX-License-Identifier: Apache-2.0
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { create } from "@bufbuild/protobuf";
import { durationFromMs } from "@bufbuild/protobuf/wkt";
import { RolloutTaskSchema } from "@whetstone/proto/events/v1/events";
import { type Episode, FailureClass, Purpose, TerminationReason } from "@whetstone/proto/types/v1/types";
import {
  createRegistry,
  defineRollout,
  defineWorkflow,
  type RegisteredActor,
  type Task,
  Workflow,
} from "@whetstone/sdk";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { type EnvRunnerProcess, startEnvRunner } from "../../test-support/env-runner-process.ts";
import { type FakeAnswer, type FakeGateway, type SeenCall, startFakeGateway } from "../../test-support/fake-gateway.ts";
import type { TaskFields } from "../../test-support/orchestrator-setup.ts";
import { builtInActors } from "../agents/built-in.ts";
import { fixedRunner } from "../environments/runners.ts";
import { playTask } from "./play-task.ts";
import { ExternalModels } from "./external-models.ts";
import { Gateway } from "./gateway.ts";
import { RunnerClients } from "../environments/runner-clients.ts";

let runner: EnvRunnerProcess;
let environments: RunnerClients;
let fake: FakeGateway;
let gateway: Gateway;
let script: (call: SeenCall) => FakeAnswer;

beforeAll(async () => {
  runner = await startEnvRunner();
  environments = new RunnerClients();
});
afterAll(async () => {
  await environments[Symbol.asyncDispose]();
  await runner[Symbol.asyncDispose]();
});
beforeEach(async () => {
  script = () => ({ text: "R" });
  fake = await startFakeGateway((call) => script(call));
  gateway = new Gateway(fake.url, 16);
});
afterEach(async () => {
  await gateway[Symbol.asyncDispose]();
  await fake[Symbol.asyncDispose]();
});

const ask = (content: string) => [{ role: "user", content }] as const;

class Debate extends Workflow {
  async run(task: Task): Promise<void> {
    const solvers = await Promise.all([1, 2].map((n) => this.chat("solver", ask(`solve ${n} ${task.id}`))));
    const verdict = await this.chat("judge", ask("judge"));
    for (const { step } of solvers) this.commit("solver", [step], verdict.text === "yes" ? 1 : 0);
    this.commit("judge", [verdict.step], 0.5);
    const environment = await this.openEnvironment();
    await environment.reset();
    await this.chat("walker", ask(String((await environment.step("Right")).observation)));
  }
}
const debate = defineWorkflow({ kind: "debate", create: () => new Debate() });

interface Where {
  readonly baseUrl: string;
  readonly apiKey: string;
  readonly model: string;
}
/** As any OpenAI client would. */
async function complete({ baseUrl, apiKey, model }: Where, text: string, role?: string): Promise<string> {
  const answer = await fetch(`${baseUrl}/chat/completions`, {
    method: "POST",
    headers: { authorization: `Bearer ${apiKey}`, ...(role === undefined ? {} : { "x-whetstone-role": role }) },
    body: JSON.stringify({ model, messages: ask(text) }),
  });
  return ((await answer.json()) as { choices: [{ message: { content: string } }] }).choices[0].message.content;
}

function play(actors: readonly RegisteredActor[], fields: TaskFields): Promise<Episode> {
  const task = create(RolloutTaskSchema, {
    episodeId: "job/g0/s0",
    job: "job",
    group: "g0",
    purpose: Purpose.TRAIN,
    task: { id: "seed-5", payload: { seed: 5 } },
    seed: 100n,
    model: "job",
    ...fields,
  });
  const registry = createRegistry<RegisteredActor>("agent", [...builtInActors(), ...actors]);
  const externals = new ExternalModels({ JUDGE_KEY: "secret" });
  const deps = { actors: registry, environments, gateway, externals };
  return playTask(
    deps,
    { task, attempt: 1, waitingMs: 0, runners: fixedRunner(runner.address) },
    new AbortController().signal,
  );
}

function shape({ trajectories }: Episode) {
  return trajectories.map(({ id, role, reward, steps }) => [id, role, reward, steps.map(({ callId }) => callId)]);
}

const LAKE = { kind: "frozenlake", args: { size: 4, observation: "compact", maxSteps: 8 } };

describe("a workflow", () => {
  it("is sealed with a trajectory a commit, its parallel calls and its environment", async () => {
    script = ({ headers }) => ({ text: headers["x-whetstone-role"] === "judge" ? "yes" : "x", delayMs: 5 });
    const episode = await play([debate], { agent: { kind: "debate" }, environment: LAKE });
    expect(episode.failure?.failureClass).toBe(FailureClass.NONE);
    expect(shape(episode).map(([id, role, reward]) => [id, role, reward])).toEqual([
      ["t0", "solver", 1],
      ["t1", "solver", 1],
      ["t2", "judge", 0.5],
      ["t3", "walker", 0],
    ]);
    const named = episode.trajectories.flatMap(({ steps }) => steps.map(({ callId }) => callId));
    expect(new Set(named)).toEqual(new Set(episode.calls.map(({ id }) => id)));
    expect(episode.calls.map(({ role }) => role).toSorted()).toEqual(["judge", "solver", "solver", "walker"]);
    expect(episode.reward).toBe(2.5);
    expect(episode.metrics).toEqual({ solver_acc: 1, judge_acc: 0.5, walker_acc: 0 });
    expect(fake.sessions.size).toBe(0);
  });

  it("does not count a try whose calls the gateway lost", async () => {
    let judged = 0;
    script = ({ headers }) => {
      if (headers["x-whetstone-role"] === "judge" && (judged += 1) === 1) fake.forget();
      return { text: "yes" };
    };
    const episode = await play([debate], { agent: { kind: "debate" }, environment: LAKE });
    expect([episode.failure?.failureClass, judged, episode.calls.length]).toEqual([FailureClass.NONE, 2, 4]);
  });

  it("asks a role's own model elsewhere: those calls are context, not the policy's", async () => {
    const seen: { key: string | undefined; body: { model: string } }[] = [];
    await using judge = await startModelServer((key, body) => seen.push({ key, body: body as { model: string } }));
    const model = { baseUrl: judge.url, model: "big", apiKeyEnv: "JUDGE_KEY" };
    const roles = [{ name: "judge", frozen: true, model }];
    const episode = await play([debate], { agent: { kind: "debate" }, environment: LAKE, roles });
    expect(episode.failure?.failureClass).toBe(FailureClass.NONE);
    expect(seen.map(({ key, body }) => [key, body.model])).toEqual([["Bearer secret", "big"]]);
    expect(episode.calls.map(({ role }) => role).toSorted()).toEqual(["solver", "solver", "walker"]);
    expect(episode.trajectories.find(({ role }) => role === "judge")?.steps).toMatchObject([
      { callId: "", modelResponse: "yes", reward: 0.5 },
    ]);
  });

  it("is a broken task when the key of a role's model is not here", async () => {
    const model = { baseUrl: "http://127.0.0.1:1", model: "big", apiKeyEnv: "NO_SUCH_KEY" };
    const fields = { agent: { kind: "debate" }, environment: LAKE, roles: [{ name: "judge", model }] };
    const { failure } = await play([debate], fields);
    expect([failure?.failureClass, failure?.message]).toEqual([
      FailureClass.TASK,
      expect.stringContaining("NO_SUCH_KEY"),
    ]);
  });

  it("without an environment plays where it needs none", async () => {
    const plain = defineWorkflow({
      kind: "plain",
      create: () =>
        new (class extends Workflow {
          async run(): Promise<void> {
            (await this.chat("agent", ask("?"))).step.reward = 1;
          }
        })(),
    });
    expect(shape(await play([plain], { agent: { kind: "plain" } }))).toEqual([["t0", "agent", 1, ["c0"]]]);
    expect((await play([debate], { agent: { kind: "debate" } })).failure?.message).toContain("names none");
  });

  it("that hits its deadline keeps the calls so far", async () => {
    script = ({ headers }) => ({
      text: "x",
      delayMs: headers["x-whetstone-role"] === "judge" ? Number.POSITIVE_INFINITY : 0,
    });
    const limits = { episodeTimeout: durationFromMs(300) };
    const episode = await play([debate], { agent: { kind: "debate" }, environment: LAKE, limits });
    expect(episode.terminationReason).toBe(TerminationReason.DEADLINE);
    expect([episode.calls.length, shape(episode)[0]?.[1]]).toEqual([2, "solver"]);
  });
});

describe("a rollout", () => {
  it("has its calls as steps, a trajectory a role, each with the team's reward", async () => {
    const rollout = defineRollout({
      kind: "own",
      run: async (input) => {
        await complete(input, "one");
        await complete(input, "two", "judge");
        await complete(input, "three");
        return { reward: 0.5, metrics: { n: 3 } };
      },
    });
    const episode = await play([rollout], { agent: { kind: "own" }, limits: { gamma: 0.5 } });
    expect(shape(episode)).toEqual([
      ["t0", "agent", 0.5, ["c0", "c2"]],
      ["t1", "judge", 0.5, ["c1"]],
    ]);
    expect(episode.trajectories[0]?.steps.map(({ mcReturn, done }) => [mcReturn, done])).toEqual([
      [0.25, false],
      [0.5, true],
    ]);
    expect([episode.reward, episode.metrics["n"], episode.failure?.failureClass]).toEqual([0.5, 3, FailureClass.NONE]);
  });

  it("gives roles the rewards that it reports", async () => {
    const rollout = defineRollout({
      kind: "own",
      run: async (input) => {
        for (const role of ["solver", "judge"]) await complete(input, "?", role);
        return {
          trajectories: [
            { name: "solver", reward: 2 },
            { name: "judge", reward: -1 },
          ] as never,
        };
      },
    });
    const episode = await play([rollout], { agent: { kind: "own" } });
    expect(shape(episode).map(([, role, reward]) => [role, reward])).toEqual([
      ["solver", 2],
      ["judge", -1],
    ]);
    expect(episode.reward).toBe(1);
  });

  it("is scored by the job's environment", async () => {
    const rollout = defineRollout({ kind: "own", run: async (input) => ({ output: await complete(input, "way?") }) });
    script = () => ({ text: "It is \\boxed{42}." });
    const task = { id: "t", payload: { question: "6*7", answer: "42" } };
    const episode = await play([rollout], { agent: { kind: "own" }, environment: { kind: "math" }, task });
    expect([episode.failure?.message, episode.isCorrect]).toEqual(["", true]);
    expect(shape(episode)).toEqual([["t0", "agent", 1, ["c0"]]]);
  });

  it("that hits its deadline leaves the calls it made", async () => {
    const rollout = defineRollout({
      kind: "own",
      run: async (input) => {
        await complete(input, "one");
        return new Promise<number>(() => undefined);
      },
    });
    const limits = { episodeTimeout: durationFromMs(300) };
    const episode = await play([rollout], { agent: { kind: "own" }, limits });
    expect(episode.terminationReason).toBe(TerminationReason.DEADLINE);
    expect(shape(episode)).toEqual([["t0", "agent", 0, ["c0"]]]);
  });
});

describe("built-in external agents", () => {
  it("a command talks to the gateway by its environment variables", async () => {
    const program = join(import.meta.dirname, "../../test-support/command-agent.ts");
    const agent = { kind: "command", args: { command: [process.execPath, program] } };
    script = ({ body }) => ({ text: `re ${body.messages[0]?.content}` });
    const episode = await play([], { agent });
    expect(episode.failure?.message).toBe("");
    expect(shape(episode)).toEqual([["t0", "agent", 0.75, ["c0", "c1"]]]);
    expect(episode.trajectories[0]?.steps[1]?.modelResponse).toBe("re re seed-5");
  });

  it("are told of the port for agents where there is one, each as it reaches it", async () => {
    const told: Where[] = [];
    await using remote = await startHttpAgent(async (body) => {
      told.push(body as Where);
      const { callback } = body as { callback: string };
      await fetch(callback, { method: "POST", body: JSON.stringify({ reward: 1 }) });
    });
    await gateway[Symbol.asyncDispose]();
    gateway = new Gateway(fake.url, 16, { agentUrl: `${fake.url}/`, publicUrl: "https://agents.example/policy/" });
    await play([], { agent: { kind: "http", args: { url: remote.url } } });
    expect(told).toMatchObject([
      {
        baseUrl: "https://agents.example/policy/v1",
        apiKey: expect.stringMatching(/^key-of-/) as string,
        model: "job",
      },
    ]);
    expect(Object.keys(told[0] ?? {})).not.toContain("publicBaseUrl");

    const program = join(import.meta.dirname, "../../test-support/command-agent.ts");
    const agent = { kind: "command", args: { command: [process.execPath, program] } };
    const episode = await play([], { agent });
    expect(shape(episode)).toEqual([["t0", "agent", 0.75, ["c0", "c1"]]]);
    expect(fake.paths.filter((path) => path.endsWith("/chat/completions"))).toEqual([
      "/v1/chat/completions",
      "/v1/chat/completions",
    ]);
  });

  it("an HTTP agent delivers by the callback", async () => {
    await using remote = await startHttpAgent(async (body) => {
      await complete(body as Where, "hello", "remote");
      const { callback } = body as { callback: string };
      await fetch(callback, { method: "POST", body: JSON.stringify({ reward: 1 }) });
    });
    const episode = await play([], { agent: { kind: "http", args: { url: remote.url } } });
    expect(shape(episode)).toEqual([["t0", "remote", 1, ["c0"]]]);
  });
});

it("an unknown kind is a broken task that names the known ones", async () => {
  const { failure } = await play([], { agent: { kind: "nobody" }, environment: LAKE });
  expect(failure?.failureClass).toBe(FailureClass.TASK);
  expect(failure?.message).toMatch(/unknown agent "nobody"; known: frozenlake, .*command, coding-cli, http/);
});

async function listen(server: Server): Promise<AsyncDisposable & { readonly url: string }> {
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  return {
    url,
    [Symbol.asyncDispose]: async () => {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}

function startModelServer(onCall: (key: string | undefined, body: unknown) => void) {
  return serveJson((headers, body, respond) => {
    onCall(headers["authorization"], body);
    const message = { role: "assistant", content: "yes" };
    const usage = { prompt_tokens: 3, completion_tokens: 1 };
    respond(200, { id: "chatcmpl-1", choices: [{ message, finish_reason: "stop" }], usage });
  });
}

function startHttpAgent(work: (body: unknown) => Promise<void>) {
  return serveJson((_headers, body, respond) => {
    respond(202, {});
    void work(body);
  });
}

type Respond = (status: number, body: object) => void;

function serveJson(handle: (headers: Record<string, string | undefined>, body: unknown, respond: Respond) => void) {
  const server = createServer((request, response) => {
    let text = "";
    request.on("data", (chunk: Buffer) => (text += chunk.toString()));
    request.on("end", () => {
      const respond: Respond = (status, body) => response.writeHead(status).end(JSON.stringify(body));
      handle(request.headers as Record<string, string | undefined>, JSON.parse(text), respond);
    });
  });
  return listen(server);
}
