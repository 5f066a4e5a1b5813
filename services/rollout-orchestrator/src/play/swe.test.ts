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

const call = (command: string): string =>
  `<tool_call>${JSON.stringify({ name: "bash", arguments: { command } })}</tool_call>`;

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

  async function play(policy: Policy, { id, payload }: Pick<MadeTask, "id" | "payload">, libraries = folder) {
    const commands = policy(payload);
    await using fake = await startFakeGateway(({ body: { messages } }) => {
      const command = commands[messages.filter(({ role }) => role === "assistant").length];
      return { text: command === undefined ? "Done." : call(command) };
    });
    await using gateway = new Gateway(fake.url, 4);
    await using environments = new RunnerClients();
    const task = create(RolloutTaskSchema, {
      episodeId: "job/g0/s0",
      job: "job",
      task: { id, payload: structuredClone(payload) },
      seed: 1n,
      agent: { kind: "tool" },
      environment: { kind: "swe", args: { libraries, maxSteps: 6 } },
      limits: { retryLimit: 0, maxPromptTokens: 100_000, maxResponseTokens: 100_000 }, // A token is a character here.
    });
    const actors = createRegistry<RegisteredActor>("agent", builtInActors());
    const deps = { actors, environments, gateway, externals: new ExternalModels({}) };
    const delivery = { task, attempt: 1, waitingMs: 0, runners: fixedRunner(runner.address) };
    return await playTask(deps, delivery, new AbortController().signal);
  }

  async function rewards(policy: Policy): Promise<number[]> {
    const episodes = [];
    for (const task of tasks) episodes.push(await play(policy, task));
    expect(episodes.map(({ failure }) => failure?.message)).toEqual(tasks.map(() => ""));
    for (const { trajectories } of episodes) expect(trajectories[0]?.steps.length).toBeGreaterThan(2);
    return episodes.map(({ reward }) => reward);
  }

  it("is paid for the repair", async () => {
    expect(await rewards(oracle)).toEqual(tasks.map(() => 1));
  });

  it("is not paid for what it does by chance", async () => {
    const all = await rewards(random);
    expect(all.reduce((sum, reward) => sum + reward, 0) / all.length).toBeLessThanOrEqual(0.2);
  });

  it("sees commands' output, and the record says how it was isolated and graded", async () => {
    const { trajectories } = await play(oracle, tasks[0] as MadeTask);
    const steps = trajectories[0]?.steps ?? [];
    const infos = steps.map(({ info }) => info ?? {});
    expect(infos.at(-1)).toMatchObject({ resolved: true, success: true, failToPass: 1, passToPass: 1, toolCalls: 2 });
    expect(infos.at(-1)?.["sandboxLevel"]).toMatch(/^[ABC]$/u);
  });

  it("is not paid 0 where the library is missing, or another one: that is a failure of a class", async () => {
    const task = tasks[0] as MadeTask;
    const missing = await play(oracle, task, join(folder, "nowhere"));
    expect(missing.failure?.message).toMatch(/cannot be used.*whet tasks make swe/u);
    const other = await play(oracle, { ...task, payload: { ...task.payload, sdist: "b".repeat(64) } });
    expect(other.failure?.message).toMatch(/the task was made from tally-1\.0\.0 with the digest b/u);
  });
});
