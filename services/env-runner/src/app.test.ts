// SPDX-License-Identifier: Apache-2.0
// What is this service's own; what every server of the contract does is in conformance.test.ts.
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { JsonObject } from "@bufbuild/protobuf";
import { createRng } from "@whetstone/core";
import { EnvironmentService } from "@whetstone/proto/environments/v1/environments";
import { createClient, type RpcClient } from "@whetstone/rpc";
import { IndexStore } from "@whetstone/search";
import { FrozenLakeEnv, isDone } from "@whetstone/sdk";
import { silentLogger } from "@whetstone/telemetry";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { odd } from "../test-support/odd.ts";
import { CANCEL, openSession, type Request, reset, step } from "../test-support/session-client.ts";
import { Browsers } from "./browsers/browsers.ts";
import { builtIn, type EnvRunnerApp, startApp } from "./app.ts";
import { ConfigSchema } from "./config.ts";
import { MathVerify } from "./math-verify/math-verify.ts";
import { Sandboxes } from "./sandboxes/sandboxes.ts";

const judge = new MathVerify({ folder: undefined, backend: () => Promise.reject(new Error("it is not asked")) });
const sandboxes = new Sandboxes();
const browsers = new Browsers(sandboxes, ConfigSchema.parse({}));
const indexes = new IndexStore({ folder: "none" });
const served = [...builtIn({ sandboxes, browsers, judge, indexes }), odd];
const KINDS = served.map(({ kind }) => kind);

let app: EnvRunnerApp;
let client: RpcClient<typeof EnvironmentService>;

beforeEach(async () => {
  app = await startApp(ConfigSchema.parse({ grpcPort: 0 }), { logger: silentLogger, environments: served });
  client = createClient(EnvironmentService, app.address);
});

afterEach(async () => {
  await client[Symbol.asyncDispose]();
  await app.close();
});

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
  const session = openSession(client);
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

  it.each(["a cancel", "the call's end"])("tell a running step of %s, then close its environment", async (how) => {
    const folder = mkdtempSync(join(tmpdir(), "whetstone-odd-"));
    const log = join(folder, "log");
    const cancel = new AbortController();
    const session = openSession(client, { signal: cancel.signal });
    await session.ask(reset("odd", { log }));
    session.send(step("hang"));
    if (how === "a cancel") session.send(CANCEL);
    else
      setTimeout(() => {
        cancel.abort();
      }, 50);
    await expect.poll(() => readFileSync(log, { encoding: "utf8", flag: "a+" })).toBe("aborted\nclosed\n");
    await expect.poll(() => app.openSessions).toBe(0);
    rmSync(folder, { recursive: true });
  });
});

describe("errors", () => {
  const cases: [name: string, request: Request, field: string, message: RegExp][] = [
    ["unknown kind", reset("nothing"), "kind", new RegExp(`known: ${KINDS.join(", ")}`)],
    ["wrong argument", reset("frozenlake", { size: 99 } satisfies JsonObject), "args.size", /10/],
  ];
  it.each(cases)("%s → TASK with its path", async (...[, request, field, message]) => {
    const answer = await openSession(client).ask(request);
    expect(answer).toMatchObject({ case: "error", value: { code: "TASK", field } });
    expect((answer.value as { message: string }).message).toMatch(message);
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
