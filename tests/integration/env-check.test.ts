// SPDX-License-Identifier: Apache-2.0
// `whet envs check`: the built-in environments keep what it asks for, and each of its checks finds the one who does not.
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type OpenEnvServer, startOpenEnvServer } from "@whetstone/openenv";
import { BaseEnv, defineEnvironment, type ResetOptions, type ResetResult, type StepResult } from "@whetstone/sdk";
import { silentLogger } from "@whetstone/telemetry";
import { canHaveSandboxes } from "@whetstone/testkit";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { runCommand } from "../../services/cli/src/run-command.ts";
import { fakeTerminal } from "../../services/cli/test-support/fake-terminal.ts";
import { type EnvRunnerApp, startApp } from "../../services/env-runner/src/app.ts";
import { ConfigSchema } from "../../services/env-runner/src/config.ts";

type Fault = "none" | "random start" | "random step" | "shared" | "slow" | "throws" | "no reward" | "close hangs";

/** Of all episodes, which is what is wrong with it. */
let sharedSteps = 0;
const forever = new Promise<never>(() => {});

/** Counts to five. */
class Counter extends BaseEnv {
  readonly #fault: Fault;
  #steps = 0;
  #seed = 0;

  constructor({ fault = "none" }: { readonly fault?: Fault }) {
    super();
    this.#fault = fault;
  }

  reset({ seed }: ResetOptions): ResetResult {
    this.#seed = seed;
    sharedSteps = 0;
    return { observation: `seed ${this.#fault === "random start" ? Math.random() : seed}`, info: {} };
  }

  async step(action: unknown): Promise<StepResult> {
    if (this.#fault === "slow") await forever;
    if (this.#fault === "throws" && typeof action !== "string") throw new Error("what is that?");
    this.#steps += 1;
    sharedSteps += 1;
    const steps = this.#fault === "shared" ? sharedSteps : this.#steps;
    const observation = this.#fault === "random step" ? Math.random() : { steps, seed: this.#seed };
    const terminated = this.#steps === 5;
    const reward = this.#fault === "no reward" && terminated ? undefined : 0.2;
    return { observation, reward, terminated, truncated: false, info: {} };
  }

  override close(): Promise<void> {
    return this.#fault === "close hangs" ? forever : Promise.resolve();
  }
}

const counter = defineEnvironment<{ fault?: Fault }>({
  kind: "counter",
  seedable: true,
  create: (args) => new Counter(args),
});

interface Checked {
  readonly passed: boolean;
  readonly checks: readonly { readonly check: string; readonly result: string; readonly detail: string }[];
}

async function check(target: string, ...flags: string[]): Promise<{ status: number } & Checked> {
  const terminal = fakeTerminal();
  const { signal } = new AbortController();
  const argv = ["envs", "check", target, "--json", ...flags];
  const status = await runCommand(argv, { terminal, environment: {}, signal, force: signal });
  return { status, ...(terminal.documents[0] as Checked) };
}

const resultsOf = ({ checks }: Checked, result: string): string[] =>
  checks.filter((one) => one.result === result).map((one) => one.check);

describe("whet envs check", () => {
  let broken: EnvRunnerApp;
  let builtIn: EnvRunnerApp;
  let folder: string;
  beforeAll(async () => {
    const config = { grpcPort: 0, closeTimeoutMs: 3_000 };
    const logger = silentLogger;
    broken = await startApp(ConfigSchema.parse(config), { logger, environments: [counter] });
    folder = mkdtempSync(join(tmpdir(), "whetstone-check-"));
    builtIn = await startApp(ConfigSchema.parse({ ...config, searchIndexPath: join(folder, "index") }), { logger });
    writeFileSync(join(folder, "corpus.jsonl"), '{"id":"a","title":"Seine","text":"A river of Paris."}\n');
  });
  afterAll(async () => {
    await Promise.all([broken[Symbol.asyncDispose](), builtIn[Symbol.asyncDispose]()]);
    rmSync(folder, { recursive: true, force: true });
  });

  const question = { question: "2+2?", answer: "4" };
  const kinds: [string, object][] = [
    ["frozenlake", { size: 4 }],
    ["math", question],
    ["math-revise", question],
    ["tool", { ...question, tools: ["calculator"] }],
    [
      "search",
      {
        ...question,
        grader: "exact",
        get corpus() {
          return join(folder, "corpus.jsonl");
        },
      },
    ],
  ];
  it.each(kinds)("finds nothing wrong with %s", async (kind, args) => {
    const checked = await check(kind, "--runner", builtIn.address, "--args", JSON.stringify(args));
    expect(resultsOf(checked, "failed"), JSON.stringify(checked.checks)).toEqual([]);
    expect(checked).toMatchObject({ status: 0, passed: true });
  });

  it.skipIf(!canHaveSandboxes)(
    "finds nothing wrong with code",
    async () => {
      const args = { question: "Print what is read.", tests: { kind: "stdin", cases: [{ input: "1", output: "1" }] } };
      const flags = ["--runner", builtIn.address, "--args", JSON.stringify(args), "--sessions", "2"];
      expect(resultsOf(await check("code", ...flags), "failed")).toEqual([]);
    },
    60_000,
  );

  const faults: [Fault, string[]][] = [
    ["none", []],
    ["random start", ["seeding", "determinism", "isolation"]],
    ["random step", ["determinism", "isolation"]],
    ["shared", ["isolation"]],
    ["throws", ["illegal actions"]],
    ["slow", ["deadlines", "determinism", "isolation", "illegal actions", "graded end", "leaks"]],
    ["no reward", ["deadlines", "determinism", "isolation", "graded end", "leaks"]],
    [
      "close hangs",
      ["deadlines", "seeding", "determinism", "isolation", "illegal actions", "graded end", "close", "leaks"],
    ],
  ];
  it.each(faults)(
    "of an environment with the fault %s fails %j",
    async (fault, failed) => {
      const checked = await check(
        "counter",
        "--runner",
        broken.address,
        "--args",
        JSON.stringify({ fault }),
        "--timeout",
        "0.5",
      );
      expect(resultsOf(checked, "failed"), JSON.stringify(checked.checks, null, 1)).toEqual(failed);
      expect(checked.status).toBe(failed.length === 0 ? 0 : 1);
    },
    60_000,
  );

  async function served(fault: Fault): Promise<OpenEnvServer> {
    const options = { host: "127.0.0.1", port: 0, name: "counter", description: "Counts to five.", sessions: 8 };
    return await startOpenEnvServer({ ...options, open: () => new Counter({ fault }) });
  }

  it("checks an OpenEnv server by its URL", async () => {
    await using server = await served("none");
    const checked = await check(server.url);
    expect(resultsOf(checked, "failed"), JSON.stringify(checked.checks)).toEqual([]);
    expect(checked.status).toBe(0);
    await expect.poll(() => server.openSessions).toBe(0);
  });

  it("finds the OpenEnv server that keeps sessions which nobody has any more", async () => {
    const server = await served("close hangs");
    const checked = await check(server.url, "--timeout", "0.5");
    expect(resultsOf(checked, "failed")).toContain("leaks");
    expect(checked.checks.at(-1)?.detail).toMatch(/after others were left/);
  }, 60_000);

  it("refuses arguments that the environment refuses, by their path", async () => {
    const terminal = fakeTerminal();
    const { signal } = new AbortController();
    const argv = ["envs", "check", "frozenlake", "--runner", builtIn.address, "--args", '{"size": "large"}'];
    expect(await runCommand(argv, { terminal, environment: {}, signal, force: signal })).toBe(2);
    expect(terminal.err.join("\n")).toMatch(/^args\.size: /u);
  });

  it.each([
    [["counter", "--runner", "x", "--sessions", "0"], "--sessions"],
    [["counter", "--runner", "x", "--args", "[]"], "--args"],
    [["counter", "--runner", "x", "--timeout", "soon"], "--timeout"],
  ])("refuses %j", async (argv, path) => {
    const terminal = fakeTerminal();
    const { signal } = new AbortController();
    const status = await runCommand(["envs", "check", ...argv], { terminal, environment: {}, signal, force: signal });
    expect([status, terminal.err.join("\n")]).toEqual([2, expect.stringContaining(`${path}:`)]);
  });
});
