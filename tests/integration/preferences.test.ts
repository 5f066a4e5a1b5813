// SPDX-License-Identifier: Apache-2.0
// DPO and SFT from files, through the real services: what is learned shows in pairs and demonstrations that are held out.
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type Job, JobService } from "@whetstone/proto/jobs/v1/jobs";
import type { JsonObject } from "@bufbuild/protobuf";
import { createClient } from "@whetstone/rpc";
import { generateMap, legalMoves, renderCompact, startGame } from "@whetstone/sdk";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { stringify } from "yaml";
import { writeDemonstrations } from "../../examples/frozenlake/src/demonstrations.ts";
import { type LocalRuntime, smallJob, startLocalRuntime } from "../support/local-runtime.ts";

const PAIRS = 96;
const HELD_OUT = 24;

/** On each map a move that stays on the board is better than one that leaves it, or than no move where none does. */
function pairOf(seed: number) {
  const state = startGame(generateMap({ size: 4, frozenProbability: 0.8, maxSteps: 6, seed }));
  const legal = legalMoves(state).map((move) => move.charAt(0));
  const prompt = { role: "user", content: renderCompact(state) };
  const answer = (content: string) => [prompt, { role: "assistant", content }];
  const illegal = [..."LDRU"].filter((move) => !legal.includes(move));
  return { id: `p${seed}`, chosen: answer(legal[0] ?? ""), rejected: answer(illegal[0] ?? "?") };
}

describe("preferences and held-out demonstrations", () => {
  let runtime: LocalRuntime;
  const folder = mkdtempSync(join(tmpdir(), "whetstone-preferences-"));
  const file = (name: string, lines: readonly object[]): string => {
    const path = join(folder, name);
    writeFileSync(path, lines.map((line) => JSON.stringify(line)).join("\n"));
    return path;
  };
  beforeAll(async () => {
    runtime = await startLocalRuntime();
  }, 240_000);
  afterAll(async () => {
    await runtime[Symbol.asyncDispose]();
    rmSync(folder, { recursive: true, force: true });
  });

  /** `whet train` with a job file. */
  async function train(name: string, algorithm: object, tasks: (seed: number) => object): Promise<Job> {
    const rows = (first: number, count: number) => Array.from({ length: count }, (_, i) => tasks(first + i));
    const job = {
      name,
      model: { path: runtime.model },
      train: { jsonl: file(`${name}.jsonl`, rows(1, PAIRS)) },
      validation: { dataset: { jsonl: file(`${name}-held-out.jsonl`, rows(10_000, HELD_OUT)) }, everySteps: 2 },
      algorithm,
      loop: { steps: 4, batchGroups: PAIRS / 2 },
    };
    writeFileSync(join(folder, `${name}.yaml`), stringify(job));
    const { status, output } = runtime.whet("train", join(folder, `${name}.yaml`));
    expect(status, output).toBe(0);
    return jobOf(name);
  }

  async function jobOf(name: string): Promise<Job> {
    await using jobs = createClient(JobService, runtime.address("controller"));
    return (await jobs.getJob({ name })).job as Job;
  }

  const measured = ({ status }: Job, name: string): number[] =>
    (status?.validations ?? []).map(({ metrics }) => metrics[name] ?? NaN);
  const books = (name: string) => runtime.whet("jobs", "audit", name).json;
  const sound = { lost: 0, duplicated: 0, stale: 0, unlabelled: 0, inFlight: 0, voided: 0 };
  const optimizer = { learningRate: 0.001 };

  it.each(["dpo", "ipo"])(
    "%s: pairs that nobody trained are told apart",
    async (variant) => {
      const job = await train(
        variant,
        { dpo: { variant, optimizer, batching: { miniBatches: 4, epochs: 2 } } },
        pairOf,
      );
      expect(job.status?.validations.map(({ step, variant: v, tasks }) => [step, v, tasks])).toEqual(
        [0, 2, 4].map((step) => [step, "heldout", HELD_OUT]),
      );
      const accuracies = measured(job, "rewards/accuracies");
      expect(accuracies[0]).toBe(0); // The policy is the reference still, and prefers nothing.
      expect(accuracies.at(-1)).toBeGreaterThan(0.65);
      const losses = measured(job, "loss");
      expect(losses.at(-1)).toBeLessThan(losses[0] ?? 0);
      expect(books(variant)).toMatchObject({ ...sound, dispatched: 4 * PAIRS, trained: 4 * PAIRS });
    },
    300_000,
  );

  it("pairs out of recorded episodes are trained token by token", async () => {
    const run = (job: JsonObject): void => {
      const path = join(folder, `${job["name"] as string}.yaml`);
      writeFileSync(path, stringify(job));
      const { status, output } = runtime.whet("train", path);
      expect(status, output).toBe(0);
    };
    const { agent: _a, environment: _e, ...plain } = smallJob("taught", runtime.model, { steps: 1, groups: 512 });
    const shown = join(folder, "shown.jsonl");
    writeDemonstrations(shown, 1, 512);
    const sft = { optimizer: { learningRate: 0.002 }, batching: { miniBatches: 16, epochs: 6 } };
    run({ ...plain, train: { jsonl: shown }, algorithm: { sft } });
    const model = { path: (await jobOf("taught")).status?.modelPath ?? "" };
    run({ ...smallJob("played", model.path, { steps: 1, groups: 64 }) });
    const recorded = join(folder, "recorded.jsonl");
    const { pairs } = runtime.whet("episodes", "export", "played", "--pairs", recorded).json as { pairs: number };
    expect(pairs).toBeGreaterThan(0);
    const loop = { steps: 1, batchGroups: pairs };
    run({ ...plain, name: "replayed", model, loop, train: { jsonl: recorded }, algorithm: { dpo: { optimizer } } });
    expect(books("replayed")).toMatchObject({ ...sound, trained: 2 * pairs });
    const { metrics = {} } = (await jobOf("replayed")).status?.lastStep ?? {};
    expect(metrics["loss"]).toBeCloseTo(Math.log(2), 5); // Before its first update the policy is the reference.
    expect(metrics["logps/chosen"]).toBeGreaterThan(-30);
  }, 300_000);

  it("SFT: the loss of held-out demonstrations falls", async () => {
    const shown = (seed: number) => ({ id: `d${seed}`, demonstration: pairOf(seed).chosen });
    const job = await train("sft", { sft: { optimizer, batching: { miniBatches: 4, epochs: 2 } } }, shown);
    const losses = measured(job, "loss");
    expect(losses).toHaveLength(3);
    expect(losses[2]).toBeLessThan(0.5 * (losses[0] ?? 0));
    expect(measured(job, "mean_token_accuracy")[2]).toBeGreaterThan(0.5);
    expect(books("sft")).toMatchObject({ ...sound, trained: 2 * PAIRS });
  }, 300_000);
});
