// SPDX-License-Identifier: Apache-2.0
// Programs, repairs of a library, tools of MCP servers, questions and pages of browsers, by scripted policies through all services,
// while processes are killed and servers fail: whoever knows the answer is paid, whoever guesses is not, the books balance, and nothing is left.
import { execFileSync } from "node:child_process";
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { canHaveBrowsers, miniwobFolder } from "@whetstone/browser/test-support";
import { JobPhase, JobService } from "@whetstone/proto/jobs/v1/jobs";
import { createClient } from "@whetstone/rpc";
import { canHaveSandboxes, waitFor } from "@whetstone/testkit";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { type LocalRuntime, startLocalRuntime } from "../support/local-runtime.ts";
import {
  PAGES,
  QUESTIONS,
  repairs,
  scriptedJob,
  type ScriptedUse,
  SUMS,
  UNSTEADY_SERVER,
  WORDS,
} from "../support/scripted-episodes.ts";
import { startUnsteadyRetriever, type UnsteadyRetriever } from "../support/unsteady-retriever.ts";

const ROOT = join(import.meta.dirname, "../..");
/** A multiple of 64, by a policy that knows the answers; a quarter as many by one that guesses. */
const EPISODES = Number(process.env["WHETSTONE_SANDBOXED_EPISODES"] ?? 64);
const SOUND = { lost: 0, duplicated: 0, stale: 0, unlabelled: 0, inFlight: 0 };
const GROUP = 4;
const STEPS = 4;

describe.runIf(canHaveSandboxes)("episodes in sandboxes while processes are killed", () => {
  let runtime: LocalRuntime;
  let folder: string;
  let retriever: UnsteadyRetriever;
  /** Of each env-runner there was. */
  const pids = new Set<number>();
  beforeAll(async () => {
    // Inside the repository, so that the SDK is found as it is in a project that has it installed.
    mkdirSync(join(ROOT, ".whetstone"), { recursive: true });
    folder = mkdtempSync(join(ROOT, ".whetstone/sandboxed-"));
    retriever = await startUnsteadyRetriever();
    runtime = await startLocalRuntime();
    if (canHaveBrowsers) symlinkSync(miniwobFolder(), join(runtime.data, "miniwob"));
  }, 120_000);
  afterAll(async () => {
    await runtime[Symbol.asyncDispose]();
    retriever[Symbol.dispose]();
    rmSync(folder, { recursive: true, force: true });
  });

  function pidOf(service: string): number {
    const pid = runtime.services().find(({ name }) => name === service)?.pid;
    if (pid === undefined) throw new Error(`there is no ${service}`);
    return pid;
  }

  function noted(service: string): number {
    const pid = pidOf(service);
    if (service === "env-runner") pids.add(pid);
    return pid;
  }

  /** @returns mean success of the episodes that were trained, the audit, and why episodes were voided */
  async function played(name: string, use: ScriptedUse, policy: "oracle" | "random", kills: readonly string[]) {
    const episodes = policy === "oracle" ? EPISODES : EPISODES / 4;
    const groups = episodes / STEPS / GROUP;
    const document = scriptedJob(folder, use, { name, model: runtime.model, policy, steps: STEPS, groups });
    const jobFile = join(folder, `${name}.json`);
    writeFileSync(jobFile, JSON.stringify(document));
    const submitted = runtime.whet("train", jobFile, "--no-watch");
    expect(submitted.status, submitted.output).toBe(0);
    await using jobs = createClient(JobService, runtime.address("controller"));
    const status = async () => (await jobs.getJob({ name }).catch(() => undefined))?.job?.status;
    for (const [index, service] of kills.entries()) {
      await waitFor(async () => ((await status())?.step ?? 0) > index, { timeoutMs: 600_000 });
      if (service === "browser") await waitFor(() => killBrowsers(pidOf("env-runner")) > 0, { timeoutMs: 120_000 });
      else process.kill(noted(service), "SIGKILL");
    }
    await waitFor(async () => (await status())?.phase === JobPhase.SUCCEEDED, { timeoutMs: 1_500_000 });
    const rates: number[] = [];
    /** By class and reason. */
    const voided: Record<string, number> = {};
    for await (const { event } of jobs.streamMetrics({ name, follow: false })) {
      if (event.case !== "step") continue;
      rates.push(event.value.metrics["rollout/success"] ?? Number.NaN);
      for (const [metric, count] of Object.entries(event.value.metrics))
        if (metric.startsWith("voided/")) voided[metric] = (voided[metric] ?? 0) + count;
    }
    const audit = runtime.whet("jobs", "audit", name).json;
    return { success: rates.reduce((sum, rate) => sum + rate, 0) / STEPS, audit, voided };
  }

  const kinds: readonly (readonly [string, () => Promise<ScriptedUse>])[] = [
    ["programs", async (): Promise<ScriptedUse> => ({ kind: "code", args: {}, tasks: SUMS })],
    [
      "repairs",
      async (): Promise<ScriptedUse> => ({
        kind: "swe",
        args: { libraries: folder, maxSteps: 4 },
        tasks: await repairs(folder),
      }),
    ],
    ["tools", async (): Promise<ScriptedUse> => ({ kind: "mcp", args: UNSTEADY_SERVER, tasks: WORDS })],
    [
      "questions",
      async (): Promise<ScriptedUse> => ({
        kind: "search",
        args: { url: retriever.url, searchTimeoutMs: 2_000 },
        tasks: QUESTIONS,
      }),
    ],
    [
      "pages",
      // A machine that is busy is slow to find a button usable: that is no fault of who clicks it.
      async (): Promise<ScriptedUse> => ({
        kind: "browser",
        args: { maxSteps: 3, elementTimeoutMs: 10_000 },
        tasks: PAGES,
      }),
    ],
  ];
  it.each(kinds.filter(([name]) => name !== "pages" || canHaveBrowsers))(
    "%s: the right ones are paid, others are not, and nothing is lost or left",
    async (name, setUp) => {
      const use = await setUp();
      const oracle = await played(`${name}-oracle`, use, "oracle", [
        "env-runner",
        name === "pages" ? "browser" : "orchestrator",
        "env-runner",
      ]);
      expect(oracle.voided).toEqual({});
      expect(oracle.audit).toMatchObject({ ...SOUND, trained: EPISODES });
      expect(oracle.success).toBeGreaterThanOrEqual(0.95);
      const random = await played(`${name}-random`, use, "random", []);
      expect(random.audit).toMatchObject({ ...SOUND, trained: EPISODES / 4 });
      expect(random.success).toBeLessThanOrEqual(0.2);
      if (name === "questions") expect(Math.min(...Object.values(await retriever.spoiled()))).toBeGreaterThan(0);
    },
    1_800_000,
  );

  it("leave no process, cgroup or folder behind", async () => {
    noted("env-runner");
    await runtime.stop();
    expect(pids.size).toBeGreaterThan(2);
    expect(leftOf([...pids])).toEqual([]);
  });
});

/** All of Chromium's processes that this env-runner has: who has begun there is played again. @returns how many */
function killBrowsers(owner: number): number {
  const inSandbox = `whetstone-sandbox-${owner}-`;
  const found = readdirSync("/proc").filter((pid) => /^\d+$/u.test(pid) && commandOf(pid).includes(inSandbox));
  for (const pid of found) process.kill(Number(pid), "SIGKILL");
  return found.length;
}

/** Command lines, cgroups and prepared states that carry the name of one of these owners. */
function leftOf(owners: readonly number[]): string[] {
  const isTheirs = (text: string): boolean => owners.some((pid) => text.includes(`whetstone-sandbox-${pid}-`));
  const processes = readdirSync("/proc").filter((pid) => /^\d+$/u.test(pid) && isTheirs(commandOf(pid)));
  const cgroups = execFileSync("find", ["/sys/fs/cgroup", "-type", "d", "-name", "whetstone-sandbox-*"], {
    encoding: "utf8",
  });
  const states = join(tmpdir(), `whetstone-sandboxes-${process.getuid?.()}`);
  const folders = existsSync(states) ? readdirSync(states) : [];
  return [...processes, ...[...cgroups.split("\n"), ...folders].filter(isTheirs)];
}

function commandOf(pid: string): string {
  try {
    return readFileSync(`/proc/${pid}/cmdline`, "utf8");
  } catch {
    return ""; // It has ended.
  }
}
