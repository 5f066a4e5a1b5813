// SPDX-License-Identifier: Apache-2.0
// Through the real services: an adapter in place of the model's weights, and a job's own algorithm in the trainer.
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { JsonObject } from "@bufbuild/protobuf";
import { type JobStatus, JobPhase, JobService } from "@whetstone/proto/jobs/v1/jobs";
import { createClient } from "@whetstone/rpc";
import { waitFor } from "@whetstone/testkit";
import { afterAll, beforeAll, describe, expect, it, vi } from "vitest";
import { stringify } from "yaml";
import { type LocalRuntime, smallJob, startLocalRuntime } from "../support/local-runtime.ts";

const [STEPS, GROUPS, EPISODES] = [2, 2, 16];
/** What one call of a job's own code may take: long for a few tokens, on a machine that many share, too. */
const HANG_MS = 10_000;

/** Every token has the advantage 0.25, and counts as clipped. */
const OWN = `
import torch
from whetstone_trainer.algorithms.estimator import Estimator
from whetstone_trainer.algorithms.token_loss import TokenLoss, TokenLossOutput

def advantages(members, options):
    return [0.25 for _ in members]

def losses(given, options):
    ratio_N = given.ratio_N()
    return TokenLossOutput(-ratio_N * given.advantages_N, ratio_N.detach(), torch.ones_like(ratio_N, dtype=torch.bool))

ESTIMATOR = Estimator("same", advantages, wire=None, fewest_members=1)
TOKEN_LOSS = TokenLoss("unclipped", losses, wire=None)
`;
/** In a step, and not when it is tried before the job starts. */
const HANGING = OWN.replace(
  "    return [0.25",
  "    while members[0].group != 'trial':\n        pass\n    return [0.25",
);

describe("a job's adapter and its own algorithm", () => {
  let runtime: LocalRuntime;

  beforeAll(async () => {
    vi.stubEnv("WHETSTONE_ALGORITHM_HANG_MS", `${HANG_MS}`);
    runtime = await startLocalRuntime();
  }, 240_000);
  afterAll(async () => {
    vi.unstubAllEnvs();
    await runtime[Symbol.asyncDispose]();
  });

  /** `whet train` with a job file. */
  function train(name: string, more: JsonObject, ...flags: string[]): void {
    const path = join(runtime.data, `${name}.yaml`);
    writeFileSync(path, stringify({ ...smallJob(name, runtime.model, { steps: STEPS, groups: GROUPS }), ...more }));
    const { status, output } = runtime.whet("train", path, ...flags);
    expect(status, output).toBe(0);
  }

  function withModule(file: string, code: string): JsonObject {
    writeFileSync(join(runtime.data, file), code);
    return {
      algorithm: { policyGradient: { groupSize: 4, advantage: "custom", loss: "custom", module: `./${file}` } },
    };
  }

  async function statusOf(name: string): Promise<JobStatus> {
    await using jobs = createClient(JobService, runtime.address("controller"));
    return (await jobs.getJob({ name })).job?.status as JobStatus;
  }

  function expectSoundBooks(name: string): void {
    const sound = { lost: 0, duplicated: 0, stale: 0, unlabelled: 0, inFlight: 0, voided: 0 };
    expect(runtime.whet("jobs", "audit", name).json).toMatchObject({ ...sound, trained: EPISODES });
  }

  it("engines sample from an adapter's merged weights, and it lies beside them as peft has it", async () => {
    // No episode of the tiny model is rewarded: entropy moves it.
    const optimizer = { learningRate: 0.05 };
    train("adapted", {
      model: { path: runtime.model, lora: { rank: 2, alpha: 4 } },
      algorithm: { policyGradient: { groupSize: 4, entropyCoefficient: 1, optimizer } },
      loop: { steps: STEPS, batchGroups: GROUPS, mismatchBound: 0.001, mismatchShare: 1 },
    });
    expectSoundBooks("adapted");
    const { lastStep, modelPath } = await statusOf("adapted");
    expect(lastStep?.metrics).toMatchObject({
      "lag/max": 0, // The second step's tokens are of version 1,
      "logprob_diff/episodes_checked": EPISODES / STEPS, // computed as the trainer computes it: with its adapter.
    });
    const shapesOf = (path: string) => tensorsOf(path).map(({ name, shape }) => [name, shape]);
    const [base, merged] = [runtime.model, modelPath].map((folder) => join(folder, "model.safetensors")) as [
      string,
      string,
    ];
    expect(shapesOf(merged)).toEqual(shapesOf(base));
    expect(readFileSync(merged).equals(readFileSync(base))).toBe(false);
    const config = JSON.parse(readFileSync(join(modelPath, "adapter/adapter_config.json"), "utf8")) as object;
    expect(config).toMatchObject({ peft_type: "LORA", r: 2, lora_alpha: 4, base_model_name_or_path: runtime.model });
    const adapter = tensorsOf(join(modelPath, "adapter/adapter_model.safetensors"));
    expect(adapter.length).toBeGreaterThan(0);
    for (const { name, shape } of adapter) {
      expect(name).toMatch(/^base_model\.model\.model\.layers\.\d+\..+\.lora_[AB]\.weight$/);
      expect(shape[name.endsWith("A.weight") ? 0 : 1]).toBe(2);
    }
  }, 180_000);

  it("advantages and losses are those of the job's own module", async () => {
    train("own", withModule("own.py", OWN));
    expectSoundBooks("own");
    const { lastStep } = await statusOf("own");
    expect(lastStep?.metrics).toMatchObject({ "advantage/agent/mean": 0.25, clip_fraction: 1 });
    expect(lastStep?.metrics["grad_norm"]).toBeGreaterThan(0);
  }, 180_000);

  it("a module that never returns ends its job, and the next one in the queue is trained", async () => {
    train("hangs", withModule("hanging.py", HANGING), "--no-watch");
    train("next", {});
    await waitFor(async () => (await statusOf("hangs")).phase === JobPhase.FAILED);
    const { reason, message } = await statusOf("hangs");
    expect(reason).toBe("AlgorithmHung");
    expect(message).toMatch(/algorithm\.policyGradient\.module: a call did not return within 10 s .* in advantages/);
    expectSoundBooks("next");
    expect(runtime.services().find(({ name }) => name === "trainer")?.crashes).toBe(1);
  }, 240_000);
});

/** Names and shapes, from the header of a safetensors file. */
function tensorsOf(path: string): { name: string; shape: number[] }[] {
  const bytes = readFileSync(path);
  const header = bytes.subarray(8, 8 + Number(bytes.readBigUInt64LE())).toString();
  const { __metadata__: _, ...tensors } = JSON.parse(header) as Record<string, { shape: number[] }>;
  return Object.entries(tensors)
    .map(([name, { shape }]) => ({ name, shape }))
    .toSorted((one, other) => one.name.localeCompare(other.name));
}
