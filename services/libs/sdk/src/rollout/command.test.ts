// SPDX-License-Identifier: Apache-2.0
import { spawn } from "node:child_process";
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { ScriptedClient } from "../../test-support/stand-ins.ts";
import {
  AgentWorkflowEngine,
  type AgentWorkflowEngineOptions,
  commandAgent,
  type Episode,
  type Info,
} from "../index.ts";

const ENDPOINT = { baseUrl: "http://model/s/1/v1", apiKey: "k", model: "m" };
const TASK = { id: "t", payload: { question: "6*7" } };

let folder: string;
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), "command-test-"));
});
afterEach(() => rm(folder, { recursive: true, force: true }));

function play(args: Info, options: Partial<AgentWorkflowEngineOptions> = {}): Promise<Episode> {
  const rolloutClient = Object.assign(new ScriptedClient(), { endpoint: ENDPOINT });
  const own = { rolloutClient, workflow: commandAgent, workflowArgs: args, retryLimit: 0, ...options };
  return new AgentWorkflowEngine(own).runEpisode({ id: "job/g0/s1", task: TASK, seed: 7 });
}

function sh(script: string, options?: Partial<AgentWorkflowEngineOptions>): Promise<Episode> {
  return play({ command: ["sh", "-c", script], env: { MARK: join(folder, "mark") } }, options);
}

function isAlive(pid: number): boolean {
  try {
    return !readFileSync(`/proc/${pid}/stat`, "utf8").includes(") Z ");
  } catch {
    return false;
  }
}

/** Pids that the agent wrote into the mark. */
async function pids(count: number): Promise<number[]> {
  const read = (): number[] => {
    const path = join(folder, "mark");
    // A shell makes the file before it writes to it.
    return existsSync(path) ? readFileSync(path, "utf8").split("\n").filter(Boolean).map(Number) : [];
  };
  await expect.poll(() => read().length).toBe(count);
  return read();
}

describe("a command", () => {
  it("gets task, model and bounds, and reports by a file", async () => {
    const script = `cat "$WHETSTONE_TASK_FILE" > "$MARK"; env >> "$MARK"; echo '{"reward": 0.5, "metrics": {"n": 1}}' > "$WHETSTONE_RESULT_FILE"`;
    const episode = await sh(script);
    expect(episode).toMatchObject({ reward: 0.5, metrics: { n: 1 }, failure: { class: "NONE" } });
    const [task = "", ...lines] = readFileSync(join(folder, "mark"), "utf8").replace("}}", "}}\n").trim().split("\n");
    expect(JSON.parse(task)).toEqual(TASK);
    const env = Object.fromEntries(
      lines.map((line) => [line.slice(0, line.indexOf("=")), line.slice(line.indexOf("=") + 1)]),
    );
    const expected = {
      OPENAI_BASE_URL: ENDPOINT.baseUrl,
      OPENAI_API_KEY: "k",
      WHETSTONE_MODEL: "m",
      WHETSTONE_SEED: "7",
    };
    expect(env).toMatchObject({ ...expected, WHETSTONE_EPISODE: "job/g0/s1", LANG: "C.UTF-8" });
    expect(Number(env["WHETSTONE_DEADLINE"])).toBeGreaterThan(Date.now());
  });

  it("inherits nothing else: secrets of this process stay here", async () => {
    process.env["SOME_SECRET_KEY"] = "hush";
    try {
      await sh(`env | cut -d= -f1 | sort > "$MARK"`);
    } finally {
      delete process.env["SOME_SECRET_KEY"];
    }
    const names = readFileSync(join(folder, "mark"), "utf8").trim().split("\n");
    const allowed =
      /^(WHETSTONE_(MODEL|TASK_FILE|RESULT_FILE|EPISODE|SEED|DEADLINE)|OPENAI_(BASE_URL|API_KEY)|PATH|HOME|TMPDIR|LANG|MARK|PWD|OLDPWD|SHLVL|_)$/;
    expect(names.filter((name) => !allowed.test(name))).toEqual([]);
  });

  it("without a file, what it printed is its output", async () => {
    const graded = { reset: () => ({ observation: "", info: {} }), close: () => undefined };
    const step = (action: unknown) => ({
      observation: "",
      reward: action === "42" ? 1 : 0,
      terminated: true,
      truncated: false,
      info: {},
    });
    const episode = await sh("echo 42", { environmentFactory: () => ({ ...graded, step }) });
    expect([episode.reward, episode.trajectories[0]?.steps[0]?.modelResponse]).toEqual([1, "42"]);
  });

  it("has a folder of its own, which is gone afterwards", async () => {
    await sh(`pwd > "$MARK"; touch here`);
    const own = readFileSync(join(folder, "mark"), "utf8").trim();
    expect([own.includes("whetstone-agent-"), existsSync(own)]).toEqual([true, false]);
    expect(readdirSync(folder)).toEqual(["mark"]);
  });
});

describe("failures of a command", () => {
  it.each([
    ["exit 3", "INFRASTRUCTURE"],
    ["exit 65", "TASK"],
    ["exit 4", "POLICY"],
    ["kill -SEGV $$", "INFRASTRUCTURE"],
  ])("%s is %s, with what it said", async (script, failureClass) => {
    const command = ["sh", "-c", `echo one; echo broken because >&2; ${script}`];
    const { failure } = await play({ command, exitCodes: { "4": "POLICY" } });
    expect([failure.class, failure.message]).toEqual([failureClass, expect.stringContaining("broken because")]);
  });

  it("no such program", async () => {
    const { failure } = await play({ command: ["/no/such/agent"] });
    expect([failure.class, failure.message]).toEqual(["TASK", expect.stringContaining("127")]);
  });

  it("a result that is no JSON, or wrong", async () => {
    expect((await sh(`echo '{' > "$WHETSTONE_RESULT_FILE"`)).failure.message).toMatch(/is no JSON/);
    expect((await sh(`echo '{"reward": "1"}' > "$WHETSTONE_RESULT_FILE"`)).failure.message).toMatch(/reward must be/);
  });

  it("wrong arguments, by path", async () => {
    const { failure } = await play({ command: [], cmd: 1 });
    expect([failure.class, failure.message]).toEqual(["TASK", expect.stringContaining("args.cmd: unknown setting")]);
  });
});

describe("the process group", () => {
  it("is gone after the deadline, however deaf its members are", async () => {
    const script = `trap '' TERM; (trap '' TERM; echo $(exec sh -c 'echo $PPID') >> "$MARK"; while :; do sleep 1; done) & echo $$ >> "$MARK"; while :; do sleep 1; done`;
    const running = sh(script, { trajectoryTimeoutMs: 1_000 });
    const all = await pids(2);
    expect(all.map(isAlive)).toEqual([true, true]);
    expect(await running).toMatchObject({ terminationReason: "DEADLINE" });
    await expect.poll(() => all.map(isAlive)).toEqual([false, false]);
  });

  it("may say good-bye before the deadline's kill", async () => {
    const script = `trap 'sleep 0.2; echo 1 > "$MARK"; exit' TERM; while :; do sleep 0.05; done`;
    expect(await sh(script, { trajectoryTimeoutMs: 2_000 })).toMatchObject({ terminationReason: "DEADLINE" });
    await pids(1);
  });

  it("is gone after the program has ended, whatever it left behind, and nobody waits for it", async () => {
    const startedAt = performance.now();
    await sh(`sleep 60 & echo $! > "$MARK"; echo 1`);
    expect(performance.now() - startedAt).toBeLessThan(30_000);
    const [left = 0] = await pids(1);
    await expect.poll(() => isAlive(left)).toBe(false);
  });

  it("is gone when this process is killed", async () => {
    const module = JSON.stringify(new URL("./run-program.ts", import.meta.url).href);
    const mark = join(folder, "mark");
    const launch = {
      command: ["sh", "-c", `echo $$ > ${mark}; sleep 60`],
      env: { PATH: process.env["PATH"] },
      cwd: folder,
    };
    const code = `const { runProgram } = await import(${module}); await runProgram(${JSON.stringify(launch)}, new AbortController().signal)`;
    const parent = spawn(process.execPath, ["--input-type=module", "-e", code], { stdio: "ignore" });
    const [agent = 0] = await pids(1);
    expect(isAlive(agent)).toBe(true);
    parent.kill("SIGKILL");
    await expect.poll(() => isAlive(agent)).toBe(false);
  });
});
