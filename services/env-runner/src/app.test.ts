// SPDX-License-Identifier: Apache-2.0
import { type JsonObject, type MessageInitShape } from "@bufbuild/protobuf";
import { createRng } from "@whetstone/core";
import {
  EnvironmentService,
  type SessionRequestSchema,
  type SessionResponse,
} from "@whetstone/proto/environments/v1/environments";
import { createClient, type RpcClient } from "@whetstone/rpc";
import { BaseEnv, defineEnvironment, FrozenLakeEnv, isDone, type StepResult } from "@whetstone/sdk";
import { silentLogger } from "@whetstone/telemetry";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { builtIn, type EnvRunnerApp, startApp } from "./app.ts";
import { ConfigSchema } from "./config.ts";
import { Sandboxes } from "./environments/sandboxes.ts";

type Request = MessageInitShape<typeof SessionRequestSchema>;

const hooks = { closed: 0, aborted: 0 };

/** Does what its action says. */
class OddEnv extends BaseEnv {
  override reset(): { observation: unknown; info: JsonObject } {
    return { observation: { board: [1, 2] }, info: {} };
  }

  override step(action: unknown, { signal }: { signal?: AbortSignal }): Promise<StepResult> {
    if (action === "throw") return Promise.reject(new Error("odd"));
    if (action === "end") return Promise.resolve({ observation: "", terminated: true, truncated: false, info: {} });
    signal?.addEventListener("abort", () => (hooks.aborted += 1));
    return new Promise(() => undefined);
  }

  override computeFinalReward(): number {
    throw new Error("judge is ill");
  }

  override close(): void {
    hooks.closed += 1;
  }
}

const odd = defineEnvironment({
  kind: "odd",
  description: "Misbehaves.",
  seedable: false,
  parseArgs: () => ({}),
  argsSchema: {},
  create: () => new OddEnv(),
});

const served = [...builtIn(new Sandboxes()), odd];
const KINDS = served.map(({ kind }) => kind);

let app: EnvRunnerApp;
let client: RpcClient<typeof EnvironmentService>;

async function start(slots = 2048): Promise<void> {
  const config = ConfigSchema.parse({ grpcPort: 0, slots });
  app = await startApp(config, { logger: silentLogger, environments: served });
  client = createClient(EnvironmentService, app.address);
}

beforeEach(async () => {
  hooks.closed = 0;
  hooks.aborted = 0;
  await start();
});

afterEach(async () => {
  await client[Symbol.asyncDispose]();
  await app.close();
});

/** A session by hand: one request, one answer. */
function openSession(options: { signal?: AbortSignal; deadlineMs?: number } = {}) {
  const { readable, writable } = new TransformStream<Request, Request>({}, { highWaterMark: 16 });
  const writer = writable.getWriter();
  const answers = client.session(readable, options)[Symbol.asyncIterator]();
  const send = (request: Request): void => void writer.write(request);
  return {
    send,
    read: () => answers.next(),
    end: () => writer.close(),
    async ask(request: Request): Promise<SessionResponse["kind"]> {
      send(request);
      const next = (await answers.next()) as IteratorResult<SessionResponse, undefined>;
      return next.done === true ? { case: undefined } : next.value.kind;
    },
  };
}

function reset(kind: string, args: JsonObject = {}, seed = 1): Request {
  return { kind: { case: "reset", value: { kind, args, seed: BigInt(seed), episodeId: "e" } } };
}

function step(action: string): Request {
  return { kind: { case: "step", value: { action } } };
}

const ACTIONS = ["Left", "Down", "Right", "Up", ""];
const ARGS = { size: 5, observation: "compact", slippery: true };

/** A transcript of observations and rewards, by random actions. */
async function play(seed: number, act: (action: string | undefined) => Promise<{ text: string; done: boolean }>) {
  const rng = createRng(seed);
  const transcript = [await act(undefined)];
  while (transcript.at(-1)?.done !== true) transcript.push(await act(rng.choice(ACTIONS)));
  return transcript.map(({ text }) => text);
}

function playHere(seed: number): Promise<string[]> {
  const env = new FrozenLakeEnv({
    size: 5,
    frozenProbability: 0.8,
    slippery: true,
    maxSteps: 10,
    observation: "compact",
    stepDiscount: 1,
  });
  return play(seed, (action) => {
    if (action === undefined) return Promise.resolve({ text: String(env.reset({ seed }).observation), done: false });
    const result = env.step(action);
    return Promise.resolve({ text: `${String(result.observation)} ${String(result.reward)}`, done: isDone(result) });
  });
}

async function playThere(seed: number): Promise<string[]> {
  const session = openSession();
  const transcript = await play(seed, async (action) => {
    const kind = await session.ask(action === undefined ? reset("frozenlake", ARGS, seed) : step(action));
    if (kind.case !== "observation") throw new Error(`unexpected ${String(kind.case)}`);
    const { text, reward } = kind.value;
    return { text: action === undefined ? text : `${text} ${String(reward)}`, done: isDone(kind.value) };
  });
  await session.end();
  await session.read();
  return transcript;
}

describe("sessions", () => {
  it("play 1,000 at once as they play alone", async () => {
    const seeds = Array.from({ length: 1000 }, (_, seed) => seed);
    const [there, here] = await Promise.all([Promise.all(seeds.map(playThere)), Promise.all(seeds.map(playHere))]);
    expect(there).toEqual(here);
    expect(new Set(here.map((transcript) => transcript[0])).size).toBeGreaterThan(900);
    await expect.poll(() => app.openSessions).toBe(0);
  });

  it("answer close with closed, and end", async () => {
    const session = openSession();
    await session.ask(reset("odd"));
    expect((await session.ask({ kind: { case: "close", value: {} } })).case).toBe("closed");
    expect(hooks.closed).toBe(1);
    expect((await session.read()).done).toBe(true);
  });

  it("take a reset and a close that come together", async () => {
    const session = openSession();
    session.send(reset("frozenlake"));
    session.send({ kind: { case: "close", value: {} } });
    const kinds = [await session.read(), await session.read()].map(({ value }) => (value as SessionResponse).kind.case);
    expect(kinds).toEqual(["observation", "closed"]);
  });

  it.each(["end of the requests", "cancelled call", "deadline"])("close the environment by %s", async (how) => {
    const cancel = new AbortController();
    const session = openSession({ signal: cancel.signal, ...(how === "deadline" ? { deadlineMs: 150 } : {}) });
    await session.ask(reset("odd"));
    if (how === "end of the requests") await session.end();
    if (how === "cancelled call") cancel.abort();
    await expect.poll(() => [hooks.closed, app.openSessions]).toEqual([1, 0]);
  });

  it("stop a running step when asked, with CANCELLED", async () => {
    const session = openSession();
    await session.ask(reset("odd"));
    session.send(step("hang"));
    const kind = await session.ask({ kind: { case: "cancel", value: {} } });
    expect(kind).toMatchObject({ case: "error", value: { code: "CANCELLED" } });
    await expect.poll(() => [hooks.aborted, hooks.closed]).toEqual([1, 1]);
  });

  it("stop a running step when the call is cancelled", async () => {
    const cancel = new AbortController();
    const session = openSession({ signal: cancel.signal });
    await session.ask(reset("odd"));
    session.send(step("hang"));
    setTimeout(() => {
      cancel.abort();
    }, 50);
    await expect.poll(() => [hooks.aborted, hooks.closed, app.openSessions]).toEqual([1, 1, 0]);
  });

  it("refuse one more than there are slots", async () => {
    await client[Symbol.asyncDispose]();
    await app.close();
    await start(1);
    const first = openSession();
    await first.ask(reset("odd"));
    await expect(openSession().ask(reset("odd"))).rejects.toMatchObject({ code: "RESOURCE_EXHAUSTED", retry: "later" });
    await first.end();
    await expect.poll(() => app.openSessions).toBe(0);
    expect((await openSession().ask(reset("odd"))).case).toBe("observation");
  });

  it("carry structured observations", async () => {
    const kind = await openSession().ask(reset("odd"));
    expect(kind.value).toMatchObject({ text: "", data: { kind: { case: "structValue" } } });
  });
});

describe("errors", () => {
  const cases: [name: string, kind: string, args: JsonObject, field: string, message: RegExp][] = [
    ["unknown kind", "nothing", {}, "kind", new RegExp(`known: ${KINDS.join(", ")}`)],
    ["unknown argument", "frozenlake", { sise: 4 }, "args.sise", /unknown setting/],
    ["wrong argument", "frozenlake", { size: 99 }, "args.size", /10/],
  ];
  it.each(cases)("%s → TASK with its path", async (...[, kind, args, field, message]) => {
    const answer = await openSession().ask(reset(kind, args));
    expect(answer).toMatchObject({ case: "error", value: { code: "TASK", field } });
    expect((answer.value as { message: string }).message).toMatch(message);
  });

  it("a step that throws → ENVIRONMENT, and the environment is closed", async () => {
    const session = openSession();
    await session.ask(reset("odd"));
    expect(await session.ask(step("throw"))).toMatchObject({ value: { code: "ENVIRONMENT", message: "odd" } });
    expect((await session.read()).done).toBe(true);
    expect(hooks.closed).toBe(1);
  });

  it("a grade that throws → GRADER", async () => {
    const session = openSession();
    await session.ask(reset("odd"));
    expect(await session.ask(step("end"))).toMatchObject({ value: { code: "GRADER" } });
  });

  it("a step before the reset is the caller's fault", async () => {
    await expect(openSession().ask(step("Up"))).rejects.toMatchObject({ code: "FAILED_PRECONDITION" });
  });
});

describe("describe", () => {
  it("names kinds, arguments and slots", async () => {
    const { kinds, slots, slotsUsed } = await client.describe({});
    expect([kinds.map(({ kind }) => kind), slots, slotsUsed]).toEqual([KINDS, 2048, 0]);
    const schema = JSON.parse(kinds.find(({ kind }) => kind === "frozenlake")?.argsSchemaJson ?? "") as {
      properties: object;
    };
    expect(Object.keys(schema.properties)).toContain("frozenProbability");
  });
});
