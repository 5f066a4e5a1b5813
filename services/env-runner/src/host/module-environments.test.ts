// SPDX-License-Identifier: Apache-2.0
import { createHash } from "node:crypto";
import { setTimeout as delay } from "node:timers/promises";
import type { JsonObject, MessageInitShape } from "@bufbuild/protobuf";
import {
  EnvironmentService,
  type SessionRequestSchema,
  type SessionResponse,
} from "@whetstone/proto/environments/v1/environments";
import { createClient, type RpcClient } from "@whetstone/rpc";
import { silentLogger } from "@whetstone/telemetry";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { type EnvRunnerApp, startApp } from "../app.ts";
import { ConfigSchema } from "../config.ts";

type Request = MessageInitShape<typeof SessionRequestSchema>;

/** Counts to three; does what its action says. */
const CODE = Buffer.from(`
import { BaseEnv, ConfigError, defineEnvironment, EpisodeError } from "@whetstone/sdk";
class Counter extends BaseEnv {
  constructor({ from = 0 }) { super(); this.n = from; }
  reset({ seed }) { return { observation: { n: this.n, seed }, info: {} }; }
  step(action) {
    switch (action) {
      case "exit": process.exit(1);
      case "loop": for (;;);
      case "grow": { const all = []; for (;;) all.push(Buffer.alloc(64 << 20, 1)); }
      case "later": setTimeout(() => { throw new Error("too late"); }, 5); break;
      case "task": throw new EpisodeError("TASK", "bad task");
      case "throw": throw new Error("odd");
      case "never": return new Promise(() => {});
      case "nan": return { observation: "", reward: NaN, terminated: false, truncated: false, info: {} };
      case "function": return { observation: () => 1, terminated: false, truncated: false, info: {} };
      case "bad grade": this.bad = true; this.n = 3;
    }
    this.n += 1;
    return { observation: String(this.n), reward: 0, terminated: this.n >= 3, truncated: false, info: {} };
  }
  async computeFinalReward() { if (this.bad) throw new Error("judge is ill"); return 7; }
}
export const counter = defineEnvironment({ kind: "counter", description: "Counts.", create: (args) => {
  if (args.from === "x") throw new EpisodeError("TASK", "from: must be a number");
  return new Counter(args);
} });
`);

function moduleOf(code: Uint8Array): { digest: string; code: Uint8Array } {
  return { digest: createHash("sha256").update(code).digest("hex"), code };
}
const MODULE = moduleOf(CODE);

let app: EnvRunnerApp;
let client: RpcClient<typeof EnvironmentService>;

async function start(settings: object = {}): Promise<void> {
  const config = ConfigSchema.parse({ grpcPort: 0, moduleHangMs: 4_000, moduleMemoryMib: 300, ...settings });
  app = await startApp(config, { logger: silentLogger });
  client = createClient(EnvironmentService, app.address);
}

beforeEach(() => start());
afterEach(async () => {
  await client[Symbol.asyncDispose]();
  await app.close();
});

interface Opened {
  ask(request: Request): Promise<SessionResponse["kind"]>;
  step(action: string): Promise<SessionResponse["kind"]>;
  end(): Promise<void>;
}

function openSession(): Opened {
  const { readable, writable } = new TransformStream<Request, Request>({}, { highWaterMark: 16 });
  const writer = writable.getWriter();
  const answers = client.session(readable, { deadlineMs: 30_000 })[Symbol.asyncIterator]();
  const ask = async (request: Request): Promise<SessionResponse["kind"]> => {
    void writer.write(request);
    const next = (await answers.next()) as IteratorResult<SessionResponse, undefined>;
    return next.done === true ? { case: undefined } : next.value.kind;
  };
  return {
    ask,
    step: (action) => ask({ kind: { case: "step", value: { action } } }),
    async end() {
      await writer.close();
      await answers.next();
    },
  };
}

interface ResetFields {
  readonly episodeId?: string;
  readonly args?: JsonObject;
  readonly module?: { digest: string; code?: Uint8Array };
  readonly job?: string;
}

function reset({ episodeId = "e", args = {}, module = MODULE, job = "j" }: ResetFields = {}): Request {
  return { kind: { case: "reset", value: { kind: "counter", args, seed: 5n, episodeId, module, job } } };
}

async function opened(fields: ResetFields = {}): Promise<Opened> {
  const session = openSession();
  const { case: kind, value } = await session.ask(reset(fields));
  if (kind !== "observation") throw new Error(`unexpected ${kind}: ${JSON.stringify(value)}`);
  return session;
}

const pids = (): readonly number[] => app.modulePids;

describe("a module's environment", () => {
  it("plays as one that is built in, graded at its end", async () => {
    const session = openSession();
    const first = await session.ask(reset({ args: { from: 1 } }));
    expect(first.case).toBe("observation");
    expect(first.value).toMatchObject({ data: { kind: { case: "structValue" } } });
    expect(await session.step("")).toMatchObject({ value: { text: "2", reward: 0, terminated: false } });
    expect(await session.step("")).toMatchObject({ value: { text: "3", reward: 7, terminated: true } });
    await session.end();
    await expect.poll(() => app.openSessions).toBe(0);
  });

  it("asks for code that it has not, remembers code that it got, and refuses code that is another's", async () => {
    const { digest } = MODULE;
    expect(await openSession().ask(reset({ module: { digest } }))).toMatchObject({ value: { code: "MODULE" } });
    await (await opened()).end();
    expect(await openSession().ask(reset({ module: { digest } }))).toMatchObject({ case: "observation" });
    const wrong = await openSession().ask(reset({ module: { digest: "0".repeat(64), code: CODE } }));
    expect(wrong).toMatchObject({ value: { code: "TASK", field: "module.code" } });
  });

  it("is described from its module", async () => {
    const { kinds } = await client.describe({ module: MODULE });
    expect(kinds).toMatchObject([{ kind: "counter", description: "Counts.", argsSchemaJson: '{"type":"object"}' }]);
    await expect(client.describe({ module: { digest: "1".repeat(64) } })).rejects.toMatchObject({ code: "NOT_FOUND" });
  });

  it("tells the class and the line of what it throws", async () => {
    const errors = await Promise.all(
      ["task", "throw", "function"].map(async (action) => (await opened()).step(action)),
    );
    expect(errors.map(({ value }) => value)).toMatchObject([
      { code: "TASK", message: "bad task" },
      { code: "ENVIRONMENT", message: expect.stringMatching(/^odd \(module-.*:\d+:\d+\)$/) as string },
      { code: "ENVIRONMENT" },
    ]);
    expect(await (await opened()).step("bad grade")).toMatchObject({ value: { code: "GRADER" } });
    const broken = moduleOf(Buffer.from("export const x = undefined.y;"));
    expect(await openSession().ask(reset({ module: broken }))).toMatchObject({ value: { code: "TASK" } });
    expect(await openSession().ask(reset({ args: { from: "x" } }))).toMatchObject({ value: { code: "TASK" } });
  });

  it("tells what a method returned that is none, and the method's line", async () => {
    const line = CODE.toString().slice(0, CODE.toString().indexOf("  step(action)")).split("\n").length;
    const answer = await (await opened()).step("nan");
    expect(answer).toMatchObject({ value: { code: "ENVIRONMENT" } });
    const { message } = answer.value as { message: string };
    expect(message).toContain("the environment's step() returned reward NaN: it must be a finite number");
    expect(message).toMatch(new RegExp(`\\(module-.*:${line}\\)$`));
  });

  it.each([
    ["exit", "MODULE_CRASHED"],
    ["loop", "MODULE_HUNG"],
    ["grow", "MODULE_TOO_LARGE"],
  ])(
    "that does %s ends all sessions of its process as CRASHED, and no other job's",
    async (action, code) => {
      const [crashing, bystander, other] = [
        await opened(),
        await opened({ episodeId: "f" }),
        await opened({ job: "k" }),
      ];
      expect(pids()).toHaveLength(2);
      const waiting = bystander.step("never");
      expect(await crashing.step(action)).toMatchObject({
        value: { code: "CRASHED", message: expect.stringContaining(code) as string },
      });
      expect(await waiting).toMatchObject({ value: { code: "CRASHED" } });
      expect(await other.step("")).toMatchObject({ value: { text: "1" } });
      expect(await (await opened({ episodeId: "g" })).step("")).toMatchObject({ value: { text: "1" } });
    },
    90_000,
  );

  it("fails alone by an error that nobody caught, also one that comes between its steps", async () => {
    const [crashing, bystander] = [await opened(), await opened({ episodeId: "f" })];
    await crashing.step("later");
    await delay(100);
    const answer = await crashing.step("");
    expect(answer).toMatchObject({
      value: { code: "ENVIRONMENT", message: expect.stringContaining("too late") as string },
    });
    expect(await bystander.step("")).toMatchObject({ value: { text: "1" } });
  });

  it("survives kill -9 of the process: sessions of the dead one end, new ones play", async () => {
    const session = await opened();
    const [pid = 0] = pids();
    process.kill(pid, "SIGKILL");
    // What is inside the sandbox ends a moment after what keeps it, and may answer until then.
    await expect.poll(() => pids()).not.toContain(pid);
    expect(await session.step("")).toMatchObject({ value: { code: "CRASHED" } });
    expect(await (await opened()).step("")).toMatchObject({ value: { text: "1" } });
  });

  it("that has killed processes plays apart from the innocent", async () => {
    const poison = { episodeId: "poison" };
    await (await opened(poison)).step("exit");
    const innocent = await opened({ episodeId: "innocent" });
    await (await opened(poison)).step("exit");
    await (await opened(poison)).step("exit");
    expect(await innocent.step("")).toMatchObject({ value: { text: "1" } });
  });

  it("is closed with its process when its job is idle, and with the service", async () => {
    await client[Symbol.asyncDispose]();
    await app.close();
    await start({ moduleIdleMs: 200 });
    const session = await opened();
    const [pid] = pids();
    await delay(500);
    expect(pids()).toEqual([pid]);
    await session.end();
    await expect.poll(() => pids()).toEqual([]);
    await opened();
    const [last] = pids();
    await app.close();
    expect(() => process.kill(last as number, 0)).toThrow("ESRCH");
  });
});
