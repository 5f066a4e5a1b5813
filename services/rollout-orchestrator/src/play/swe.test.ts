// SPDX-License-Identifier: Apache-2.0
// Repairs of a library in sandboxes, by scripted policies through the real env-runner.
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { create } from "@bufbuild/protobuf";
import { createRng } from "@whetstone/core";
import { RolloutTaskSchema } from "@whetstone/proto/events/v1/events";
import { ProcessBackend } from "@whetstone/sandbox";
import { createRegistry, type RegisteredActor } from "@whetstone/sdk";
import {
  diffOf,
  LibraryStore,
  type MadeTask,
  makeLibrary,
  makeTasks,
  reverseEdits,
  type SweTask,
} from "@whetstone/swe";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { canHaveSandboxes } from "@whetstone/testkit";
import { SMALL_PIN, SMALL_TASK, smallSources } from "@whetstone/swe/test-support";
import { type EnvRunnerProcess, startEnvRunner } from "../../test-support/env-runner-process.ts";
import { startFakeGateway } from "../../test-support/fake-gateway.ts";
import { builtInActors } from "../agents/built-in.ts";
import { RunnerClients } from "../environments/runner-clients.ts";
import { fixedRunner } from "../environments/runners.ts";
import { playTask } from "./play-task.ts";
import { ExternalModels } from "./external-models.ts";
import { Gateway } from "./gateway.ts";

interface PlayOptions {
  readonly libraries?: string;
  readonly grammar?: Grammar;
  readonly agent?: "swe" | "tool";
}

/** What the policy runs, command by command. */
type Policy = (task: SweTask) => readonly string[];

const oracle: Policy = ({ edits }) => ["ls", `patch -p1 <<'END'\n${diffOf(reverseEdits(edits))}END`];
const GUESSES = [
  "ls",
  "cat tally/core.py",
  "python -m pytest -q",
  "echo pass >>tally/core.py",
  "sed -i s/0/1/ tally/core.py",
];
const random: Policy = ({ edits }) => createRng(JSON.stringify(edits)).shuffle(GUESSES).slice(0, 3);

type Grammar = "tool-call" | "bash-block" | "function";

interface Dialect {
  readonly toolset: "bash" | "r2e-gym";
  readonly say: (command: string) => string;
  readonly end: string;
  /** What a model might write in its place, and what it is told then. */
  readonly garbled: string;
  readonly told: RegExp;
}

const DIALECTS: Readonly<Record<Grammar, Dialect>> = {
  "tool-call": {
    toolset: "bash",
    say: (command) => `<tool_call>${JSON.stringify({ name: "bash", arguments: { command } })}</tool_call>`,
    end: "Done.",
    garbled: "<tool_call>{bash}</tool_call>",
    told: /^Error: the tool call could not be read: not valid JSON/u,
  },
  "bash-block": {
    toolset: "bash",
    say: (command) => `I look.\n\n\`\`\`bash\n${command}\n\`\`\``,
    end: "```bash\necho COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT\n```",
    garbled: "```bash\nls\n```\nand\n```bash\npwd\n```",
    told: /^Error: the answer must hold exactly one command, and there were 2 blocks/u,
  },
  function: {
    toolset: "r2e-gym",
    say: (cmd) => `I look.\n<function=execute_bash>\n<parameter=cmd>\n${cmd}\n</parameter>\n</function>`,
    end: "<function=finish><parameter=command>submit</parameter></function>",
    garbled: "<function=execute_bash><parameter=cmd>ls",
    told: /^Error: the call of a function has no end/u,
  },
};
const GRAMMARS = Object.keys(DIALECTS) as Grammar[];

describe.runIf(canHaveSandboxes)("an agent that repairs a library", { timeout: 240_000 }, () => {
  const folder = mkdtempSync(join(tmpdir(), "whetstone-swe-play-"));
  let runner: EnvRunnerProcess;
  let tasks: MadeTask[];
  beforeAll(async () => {
    await using backend = await ProcessBackend.start();
    await makeLibrary(SMALL_PIN, { folder, sources: smallSources, backend });
    await using libraries = new LibraryStore(folder, backend);
    const library = await libraries.open(SMALL_TASK.library);
    const signal = new AbortController().signal;
    tasks = await makeTasks(library, { backend, count: 5, pairs: 0.2, seed: 1, signal });
    runner = await startEnvRunner();
  }, 240_000);
  afterAll(async () => {
    await runner[Symbol.asyncDispose]();
    rmSync(folder, { recursive: true });
  });

  async function play(
    policy: Policy,
    { id, payload }: Pick<MadeTask, "id" | "payload">,
    { libraries = folder, grammar = "tool-call", agent = "swe" }: PlayOptions = {},
  ) {
    const { toolset, say, end, garbled } = DIALECTS[grammar];
    const answers = [garbled, ...policy(payload).map(say), end];
    await using fake = await startFakeGateway(({ body: { messages } }) => ({
      text: answers[messages.filter(({ role }) => role === "assistant").length] ?? end,
    }));
    await using gateway = new Gateway(fake.url, 4);
    await using environments = new RunnerClients();
    const task = create(RolloutTaskSchema, {
      episodeId: "job/g0/s0",
      job: "job",
      task: { id, payload: structuredClone(payload) },
      seed: 1n,
      agent: agent === "swe" ? { kind: "swe", args: { grammar } } : { kind: "tool" },
      environment: { kind: "swe", args: { libraries, toolset, maxSteps: 7 } },
      limits: { retryLimit: 0, maxPromptTokens: 100_000, maxResponseTokens: 100_000 }, // A token is a character here.
    });
    const actors = createRegistry<RegisteredActor>("agent", builtInActors());
    const deps = { actors, environments, gateway, externals: new ExternalModels({}) };
    const delivery = { task, attempt: 1, waitingMs: 0, runners: fixedRunner(runner.address) };
    return await playTask(deps, delivery, new AbortController().signal);
  }

  async function rewards(policy: Policy, grammar: Grammar): Promise<number[]> {
    const episodes = [];
    for (const task of tasks) episodes.push(await play(policy, task, { grammar }));
    expect(episodes.map(({ failure }) => failure?.message)).toEqual(tasks.map(() => ""));
    for (const { trajectories } of episodes) expect(trajectories[0]?.steps.length).toBeGreaterThan(2);
    return episodes.map(({ reward }) => reward);
  }

  it.each(GRAMMARS)("is paid for the repair, with the grammar %s", async (grammar) => {
    expect(await rewards(oracle, grammar)).toEqual(tasks.map(() => 1));
  });

  it.each(GRAMMARS)("is not paid for what it does by chance, with the grammar %s", async (grammar) => {
    const all = await rewards(random, grammar);
    expect(all.reduce((sum, reward) => sum + reward, 0) / all.length).toBeLessThanOrEqual(0.2);
  });

  it.each(GRAMMARS)("is told what was wrong with its call, with the grammar %s", async (grammar) => {
    const { trajectories } = await play(oracle, tasks[0] as MadeTask, { grammar });
    const seen = JSON.parse(trajectories[0]?.steps[1]?.observation ?? "null") as { toolOutputs: { output: string }[] };
    expect(seen.toolOutputs[0]?.output).toMatch(DIALECTS[grammar].told);
  });

  it("may be of the kind tool; it sees commands' output, and the record says how it was isolated and graded", async () => {
    const { trajectories } = await play(oracle, tasks[0] as MadeTask, { agent: "tool" });
    const infos = (trajectories[0]?.steps ?? []).map(({ info }) => info ?? {});
    expect(infos.at(-1)).toMatchObject({ resolved: true, success: true, failToPass: 1, passToPass: 1, toolCalls: 3 });
    expect(infos.at(-1)?.["sandboxLevel"]).toMatch(/^[ABC]$/u);
  });

  it("is not paid 0 where the library is missing, or another one: that is a failure of a class", async () => {
    const task = tasks[0] as MadeTask;
    const missing = await play(oracle, task, { libraries: join(folder, "nowhere") });
    expect(missing.failure?.message).toMatch(/cannot be used.*whet tasks make swe/u);
    const other = await play(oracle, { ...task, payload: { ...task.payload, sdist: "b".repeat(64) } });
    expect(other.failure?.message).toMatch(/the task was made from tally-1\.0\.0 with the digest b/u);
  });
});
