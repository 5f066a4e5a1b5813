// SPDX-License-Identifier: Apache-2.0
// Made questions of two hops through all services: who searches and reads is paid, who guesses is not, while the env-runner is killed.
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { JobPhase, JobService } from "@whetstone/proto/jobs/v1/jobs";
import { createClient } from "@whetstone/rpc";
import { waitFor } from "@whetstone/testkit";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { type LocalRuntime, smallJob, startLocalRuntime } from "../support/local-runtime.ts";

const ROOT = join(import.meta.dirname, "../..");
const STEPS = 3;
const GROUPS = 4;
const GROUP = 4;

/** Asks the model, and does what the oracle says all the same; or searches at random and guesses among the names that it saw. */
const POLICY = `
import { BaseAgent, createStep, createTrajectory, defineAgent } from "@whetstone/sdk";
import { oracleTurn } from "@whetstone/search/oracle";
class Policy extends BaseAgent {
  trajectory = createTrajectory();
  chatCompletions = [];
  read = "";
  reset() {}
  updateFromEnv(observation, _reward, done) {
    if (done) return;
    this.question ??= observation;
    this.read += observation;
    this.chatCompletions.push({ role: "user", content: "go on" });
  }
  updateFromModel(response) {
    const turn = this.turn();
    const next = "search" in turn ? "<think>t</think><search>" + turn.search + "</search>" : "<think>t</think><answer>" + turn.answer + "</answer>";
    this.chatCompletions.push({ role: "assistant", content: response });
    this.trajectory.steps.push(createStep({ modelResponse: response, action: next }));
    return { action: next };
  }
}
class Oracle extends Policy {
  turn() { return oracleTurn(this.question, this.read); }
}
class Guesser extends Policy {
  turn() {
    const names = [...this.read.matchAll(/[A-Z][a-z]{4,}/g)].map(([name]) => name);
    const name = names[Math.floor(Math.random() * names.length)] ?? "none";
    return this.trajectory.steps.length < 2 ? { search: name } : { answer: name };
  }
}
export const oracle = defineAgent({ kind: "oracle", create: () => new Oracle() });
export const guesser = defineAgent({ kind: "guesser", create: () => new Guesser() });
`;

describe("jobs with searches", () => {
  let runtime: LocalRuntime;
  let folder: string;
  beforeAll(async () => {
    // Inside the repository, so that the SDK is found as it is in a project that has it installed.
    mkdirSync(join(ROOT, ".whetstone"), { recursive: true });
    folder = mkdtempSync(join(ROOT, ".whetstone/search-job-"));
    writeFileSync(join(folder, "policy.ts"), POLICY);
    runtime = await startLocalRuntime();
    const made = runtime.whet("tasks", "make", "search", "--out", folder, "--count", "60", "--seed", "3");
    expect(made.json, made.output).toMatchObject({
      files: [
        { split: "train", tasks: 60 },
        { split: "heldout", tasks: 15 },
      ],
    });
  }, 120_000);
  afterAll(async () => {
    await runtime[Symbol.asyncDispose]();
    rmSync(folder, { recursive: true, force: true });
  });

  function submit(name: string, kind: string, corpus = join(folder, "corpus.jsonl")) {
    const document = {
      ...smallJob(name, runtime.model, { steps: STEPS, lag: 1, groups: GROUPS }),
      agent: { kind },
      environment: { kind: "search", args: { corpus, grammar: "tags", maxSteps: 4 } },
      module: { path: "./policy.ts" },
      train: { jsonl: join(folder, "train.jsonl"), repeat: 1000 },
      limits: { maxSteps: 4, maxPromptTokens: 256, maxResponseTokens: 256, episodeTimeout: "120s", retryLimit: 4 },
    };
    const file = join(folder, `${name}.json`);
    writeFileSync(file, JSON.stringify(document));
    return runtime.whet("train", file, "--no-watch");
  }

  async function rewardsOf(name: string, during: (step: () => Promise<number>) => Promise<void>): Promise<number[]> {
    await using jobs = createClient(JobService, runtime.address("controller"));
    const status = async () => (await jobs.getJob({ name }).catch(() => undefined))?.job?.status;
    await during(async () => (await status())?.step ?? 0);
    await waitFor(async () => (await status())?.phase === JobPhase.SUCCEEDED, { timeoutMs: 300_000 });
    const sound = { lost: 0, duplicated: 0, stale: 0, unlabelled: 0, inFlight: 0 };
    expect(runtime.whet("jobs", "audit", name).json).toMatchObject({ ...sound, trained: STEPS * GROUPS * GROUP });
    const rates: number[] = [];
    for await (const { event } of jobs.streamMetrics({ name, follow: false }))
      if (event.case === "step") rates.push(event.value.metrics["rollout/success"] ?? Number.NaN);
    return rates;
  }

  it("the oracle's is paid for all of them, and loses nothing when the env-runner is killed", async () => {
    const submitted = submit("search-oracle", "oracle");
    expect(submitted.status, submitted.output).toBe(0);
    const rates = await rewardsOf("search-oracle", async (step) => {
      await waitFor(async () => (await step()) > 0, { timeoutMs: 300_000 });
      process.kill(runtime.services().find((service) => service.name === "env-runner")?.pid ?? 0, "SIGKILL");
    });
    expect(rates.length).toBe(STEPS);
    expect(Math.min(...rates)).toBeGreaterThanOrEqual(0.95);
    // The index is the installation's own, and built once.
    const indexed = runtime.whet("corpora", "index", join(folder, "corpus.jsonl"));
    const passages = readFileSync(join(folder, "corpus.jsonl"), "utf8").trimEnd().split("\n").length;
    expect(indexed.json, indexed.output).toMatchObject({ passages, folder: join(runtime.data, "search") });
  }, 700_000);

  it("examples/search is accepted as it stands, but for its paths", () => {
    const example = readFileSync(join(ROOT, "examples/search/job.yaml"), "utf8");
    const file = join(folder, "example.yaml");
    writeFileSync(file, example.replaceAll("/data/search", folder).replace(/path: .*/u, `path: ${runtime.model}`));
    const submitted = runtime.whet("train", file, "--no-watch");
    expect(submitted.status, submitted.output).toBe(0);
    const cancelled = runtime.whet("jobs", "cancel", "search");
    expect(cancelled.status, cancelled.output).toBe(0);
  });

  it("the guesser's is paid for hardly any", async () => {
    expect(submit("search-guesser", "guesser").status).toBe(0);
    const rates = await rewardsOf("search-guesser", async () => {});
    expect(rates.reduce((sum, rate) => sum + rate, 0) / rates.length).toBeLessThanOrEqual(0.2);
  }, 700_000);
});
