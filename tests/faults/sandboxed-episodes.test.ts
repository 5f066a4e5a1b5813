// SPDX-License-Identifier: Apache-2.0
// Programs and repairs of a library in sandboxes, by scripted policies through all services, while processes are killed: whoever
// knows the answer is paid, whoever guesses is not, the books balance, and nothing is left.
import { execFileSync } from "node:child_process";
import { existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { JsonObject } from "@bufbuild/protobuf";
import { JobPhase, JobService } from "@whetstone/proto/jobs/v1/jobs";
import { createClient } from "@whetstone/rpc";
import { ProcessBackend } from "@whetstone/sandbox";
import { diffOf, LibraryStore, makeLibrary, makeTasks, reverseEdits } from "@whetstone/swe";
import { SMALL_PIN, SMALL_TASK, smallSources } from "@whetstone/swe/test-support";
import { canHaveSandboxes, waitFor } from "@whetstone/testkit";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { type LocalRuntime, smallJob, startLocalRuntime } from "../support/local-runtime.ts";

const ROOT = join(import.meta.dirname, "../..");
/** A multiple of 64, by a policy that knows the answers; a quarter as many by one that guesses. */
const EPISODES = Number(process.env["WHETSTONE_SANDBOXED_EPISODES"] ?? 64);
const SOUND = { lost: 0, duplicated: 0, stale: 0, unlabelled: 0, inFlight: 0 };
const GROUP = 4;
const STEPS = 4;

/** A task, and what a policy does turn by turn: with the answer, and without. */
interface Scripted {
  readonly id: string;
  readonly payload: JsonObject & { readonly question?: string };
  readonly told: string;
  readonly oracle: readonly unknown[];
  readonly random: readonly unknown[];
}

const program = (body: string): string => `\`\`\`python\n${body}\n\`\`\``;
const bash = (command: string) => [{ name: "bash", argumentsJson: JSON.stringify({ command }) }];

const SUMS: readonly Scripted[] = [2, 3, 5, 7].map((factor) => {
  const question = `Print ${factor} times the number that is read.`;
  const cases = [1, 4, 9].map((n) => ({ input: String(n), output: String(factor * n) }));
  const tests: JsonObject = { kind: "stdin", cases };
  return {
    id: `times-${factor}`,
    payload: { question, tests },
    told: question,
    oracle: [program(`print(${factor} * int(input()))`)],
    random: [program("print(input())")],
  };
});

/** The module of a policy that asks the model and does what its script says. */
function policies(tasks: readonly Scripted[]): string {
  const scripts = (name: "oracle" | "random"): string =>
    JSON.stringify(Object.fromEntries(tasks.map((task) => [task.told, task[name]])));
  return `
import { BaseAgent, createStep, createTrajectory, defineAgent } from "@whetstone/sdk";
class Scripted extends BaseAgent {
  trajectory = createTrajectory();
  chatCompletions = [];
  turn = 0;
  constructor(scripts) { super(); this.scripts = scripts; }
  reset() {}
  updateFromEnv(observation) {
    if (observation?.question !== undefined) this.script = this.scripts[observation.question];
    this.chatCompletions.push({ role: "user", content: "go on" });
  }
  updateFromModel(response) {
    const action = this.script[this.turn++] ?? "done";
    this.chatCompletions.push({ role: "assistant", content: response });
    this.trajectory.steps.push(createStep({ modelResponse: response, action }));
    return { action };
  }
}
export const oracle = defineAgent({ kind: "oracle", create: () => new Scripted(${scripts("oracle")}) });
export const random = defineAgent({ kind: "random", create: () => new Scripted(${scripts("random")}) });
`;
}

describe.runIf(canHaveSandboxes)("episodes in sandboxes while processes are killed", () => {
  let runtime: LocalRuntime;
  let folder: string;
  /** Of each env-runner there was. */
  const pids = new Set<number>();
  beforeAll(async () => {
    // Inside the repository, so that the SDK is found as it is in a project that has it installed.
    mkdirSync(join(ROOT, ".whetstone"), { recursive: true });
    folder = mkdtempSync(join(ROOT, ".whetstone/sandboxed-"));
    runtime = await startLocalRuntime();
  }, 120_000);
  afterAll(async () => {
    await runtime[Symbol.asyncDispose]();
    rmSync(folder, { recursive: true, force: true });
  }, 30_000);

  /** A library of our own, and repairs of it. */
  async function repairs(): Promise<readonly Scripted[]> {
    await using backend = await ProcessBackend.start();
    await makeLibrary(SMALL_PIN, { folder, sources: smallSources, backend });
    await using libraries = new LibraryStore(folder, backend);
    const signal = new AbortController().signal;
    const made = await makeTasks(await libraries.open(SMALL_TASK.library), {
      ...{ backend, count: 4, pairs: 0, seed: 3, signal },
    });
    return made.map(({ id, payload }) => ({
      id,
      payload: { ...structuredClone(payload) },
      told: payload.statement,
      oracle: [bash("ls"), bash(`patch -p1 <<'END'\n${diffOf(reverseEdits(payload.edits))}END`)],
      random: [bash("ls"), bash("sed -i s/0/1/ tally/core.py")],
    }));
  }

  /** @returns mean success of the episodes that were trained, and the audit */
  async function played(
    name: string,
    { kind, args, tasks }: { kind: string; args: JsonObject; tasks: readonly Scripted[] },
    policy: "oracle" | "random",
    kills: readonly string[],
  ) {
    const file = join(folder, `${kind}.jsonl`);
    writeFileSync(file, tasks.map(({ id, payload }) => `${JSON.stringify({ id, payload })}\n`).join(""));
    writeFileSync(join(folder, `${kind}.ts`), policies(tasks));
    const episodes = policy === "oracle" ? EPISODES : EPISODES / 4;
    const document: JsonObject = {
      ...smallJob(name, runtime.model, { steps: STEPS, lag: 1, groups: episodes / STEPS / GROUP }),
      agent: { kind: policy },
      environment: { kind, args },
      module: `./${kind}.ts`,
      train: { jsonl: file, repeat: 1000 },
      limits: {
        maxSteps: 4,
        maxPromptTokens: 256,
        maxResponseTokens: 256,
        episodeTimeout: "300s",
        retryLimit: 4,
      },
    };
    const jobFile = join(folder, `${name}.json`);
    writeFileSync(jobFile, JSON.stringify(document));
    const submitted = runtime.whet("train", jobFile, "--no-watch");
    expect(submitted.status, submitted.output).toBe(0);
    await using jobs = createClient(JobService, runtime.address("controller"));
    const status = async () => (await jobs.getJob({ name }).catch(() => undefined))?.job?.status;
    for (const [index, service] of kills.entries()) {
      await waitFor(async () => ((await status())?.step ?? 0) > index, { timeoutMs: 600_000 });
      const found = runtime.services().find((each) => each.name === service);
      if (service === "env-runner") pids.add(found?.pid ?? 0);
      process.kill(found?.pid ?? 0, "SIGKILL");
    }
    await waitFor(async () => (await status())?.phase === JobPhase.SUCCEEDED, { timeoutMs: 1_500_000 });
    const rates: number[] = [];
    for await (const { event } of jobs.streamMetrics({ name, follow: false }))
      if (event.case === "step") rates.push(event.value.metrics["rollout/success"] ?? Number.NaN);
    const audit = runtime.whet("jobs", "audit", name).json;
    return { success: rates.reduce((sum, rate) => sum + rate, 0) / STEPS, audit };
  }

  it.each([
    ["programs", () => Promise.resolve({ kind: "code", args: {}, tasks: SUMS })],
    ["repairs", async () => ({ kind: "swe", args: { libraries: folder, maxSteps: 4 }, tasks: await repairs() })],
  ] as const)(
    "%s: the right ones are paid, others are not, and nothing is lost or left",
    async (name, setUp) => {
      const use = await setUp();
      const oracle = await played(`${name}-oracle`, use, "oracle", ["env-runner", "orchestrator", "env-runner"]);
      expect(oracle.audit).toMatchObject({ ...SOUND, trained: EPISODES });
      expect(oracle.success).toBeGreaterThanOrEqual(0.95);
      const random = await played(`${name}-random`, use, "random", []);
      expect(random.audit).toMatchObject({ ...SOUND, trained: EPISODES / 4 });
      expect(random.success).toBeLessThanOrEqual(0.2);
    },
    1_800_000,
  );

  it("leave no process, cgroup or folder behind", async () => {
    pids.add(runtime.services().find(({ name }) => name === "env-runner")?.pid ?? 0);
    await runtime.stop();
    expect(pids.size).toBeGreaterThan(2);
    expect(leftOf([...pids])).toEqual([]);
  });
});

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
