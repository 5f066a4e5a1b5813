// SPDX-License-Identifier: Apache-2.0
import { type JsonValue, fromJson, toJson } from "@bufbuild/protobuf";
import { ConfigError } from "@whetstone/core";
import { JobSpecSchema } from "@whetstone/proto/jobs/v1/jobs";
import { describe, expect, it } from "vitest";

import { createStep, createTrajectory } from "../types.ts";
import { BaseAgent } from "../base-agent.ts";
import { BaseEnv } from "../base-env.ts";
import { Dataset } from "@whetstone/datasets";
import { readModule } from "../read-module.ts";
import { defineEnvironment, defineRollout } from "../define.ts";
import { sft } from "./algorithm.ts";
import { grpo } from "./recipes.ts";
import { defineJob, type JobOptions } from "./define-job.ts";
import { durationText } from "./duration.ts";

class EchoAgent extends BaseAgent {
  readonly trajectory = createTrajectory();
  readonly chatCompletions = [];
  updateFromEnv(): void {}
  updateFromModel(response: string) {
    this.trajectory.steps.push(createStep({ modelResponse: response }));
    return { action: response };
  }
  reset(): void {}
}

class EchoEnv extends BaseEnv {
  reset() {
    return { observation: "", info: {} };
  }
  step() {
    return { observation: "", reward: 0, terminated: true, truncated: false, info: {} };
  }
}

const seeds = { seeds: { first: 1, count: 10 } };
const base = {
  agent: EchoAgent,
  environment: EchoEnv,
  train: seeds,
  algorithm: grpo({ groupSize: 8 }),
  loop: { steps: 2, batchGroups: 4 },
} satisfies JobOptions;

/** What the controller would read, with defaults left out. */
async function asSpec(options: JobOptions): Promise<JsonValue> {
  const document = await defineJob(options).document();
  return toJson(JobSpecSchema, fromJson(JobSpecSchema, document as JsonValue));
}

function violations(make: () => unknown): string[] {
  try {
    make();
  } catch (error) {
    if (error instanceof ConfigError) return error.violations.map(({ path, reason }) => `${path}: ${reason}`);
    throw error;
  }
  return [];
}

describe("defineJob", () => {
  it("gives what a YAML job file holds, every setting in its place", async () => {
    const job: Required<JobOptions> = {
      name: "lake",
      model: { path: "models/tiny", lora: { rank: 16, alpha: 32, targetModules: ["q_proj"] } },
      agent: { kind: EchoAgent, args: { loud: true } },
      workflow: undefined,
      rollout: undefined,
      environment: { kind: "frozenlake", args: { size: 4 } },
      train: { jsonl: "train.jsonl", shuffleSeed: 2n ** 60n, take: 5, repeat: 2 },
      validation: {
        dataset: { seeds: { first: 3_000_000_000, count: 100 } },
        everySteps: 10,
        atStart: false,
        atEnd: true,
        variants: [{ name: "greedy", sampling: { temperature: 0, maxTokens: 2 }, attempts: 4 }],
      },
      algorithm: grpo({
        groupSize: 8,
        learningRate: 1e-3,
        beta1: 0.8,
        beta2: 0.9,
        weightDecay: 0.1,
        gradientClip: 0.5,
        warmupSteps: 1,
        finalRateShare: 0.2,
        epochs: 2,
        miniBatches: 16,
        microBatchTokens: 4096,
        clipLow: 0.2,
        clipHigh: 0.28,
        clipDual: 3,
        normalizeByStd: false,
        entropyCoefficient: 0.002,
        lossAggregation: "seq-mean-token-sum-norm",
        lossScaleFactor: 64,
        correction: { level: "sequence", cap: 4, reject: [{ statistic: "seq-mean-k1", high: 1.1 }] },
      }),
      loop: {
        steps: 200,
        batchGroups: 32,
        maxPolicyLag: 1,
        checkpointEvery: 5,
        checkpointsKept: 3,
        groupPolicy: { partial: { minSize: 3 } },
        deadlinePolicy: "mask",
        onMismatch: "warn",
        mismatchBound: 0.5,
      },
      sampling: { temperature: 0.6, topP: 0.95, topK: 20, maxTokens: 2 },
      limits: {
        maxSteps: 6,
        maxPromptTokens: 64,
        maxResponseTokens: 8,
        enforcePromptLimitEachStep: true,
        episodeTimeout: 90_000,
        retryLimit: 1,
        gamma: 0.9,
        overlongFilter: true,
        accumulateThinking: false,
        disableThinking: true,
        phaseTimeouts: { reset: 500, model: "20s", step: "1.5s", reward: "2m", close: 250 },
      },
      seed: 2n ** 53n - 1n,
      timeout: "1h",
      roles: [
        { name: "solver", advantage: "rloo" },
        { name: "critic", advantage: "reinforce++-baseline", frozen: true },
        { name: "judge", model: { baseUrl: "http://judge", model: "large", apiKeyEnv: "JUDGE_API_KEY" } },
      ],
      weight: 3,
      weights: { dtype: "bfloat16", shardMib: 512, transport: "stream" },
      sharding: { sequenceParallel: 2, offload: true },
      sandbox: { backend: "process", network: ["judge:443"] },
    };
    expect(await asSpec(job)).toEqual({
      module: { sandbox: { backend: "SANDBOX_BACKEND_PROCESS", network: ["judge:443"] } },
      name: "lake",
      model: { path: "models/tiny", lora: { rank: 16, alpha: 32, targetModules: ["q_proj"] } },
      agent: { kind: "EchoAgent", args: { loud: true } },
      environment: { kind: "frozenlake", args: { size: 4 } },
      train: { jsonl: "train.jsonl", shuffleSeed: "1152921504606846976", take: "5", repeat: 2 },
      validation: {
        dataset: { seeds: { first: "3000000000", count: "100" } },
        everySteps: 10,
        atStart: false,
        atEnd: true,
        variants: [{ name: "greedy", sampling: { temperature: 0, maxTokens: 2 }, attempts: 4 }],
      },
      algorithm: {
        policyGradient: {
          groupSize: 8,
          normalizeByStd: false,
          clipLow: 0.2,
          clipHigh: 0.28,
          clipDual: 3,
          entropyCoefficient: 0.002,
          lossAggregation: "LOSS_AGGREGATION_SEQ_MEAN_TOKEN_SUM_NORM",
          lossScaleFactor: 64,
          correction: {
            level: "CORRECTION_LEVEL_SEQUENCE",
            cap: 4,
            reject: [{ statistic: "REJECTION_STATISTIC_SEQ_MEAN_K1", high: 1.1 }],
          },
          optimizer: {
            learningRate: 0.001,
            beta1: 0.8,
            beta2: 0.9,
            weightDecay: 0.1,
            gradientClip: 0.5,
            warmupSteps: 1,
            finalRateShare: 0.2,
          },
          batching: { miniBatches: 16, epochs: 2, microBatchTokens: 4096 },
        },
      },
      loop: {
        steps: 200,
        batchGroups: 32,
        maxPolicyLag: 1,
        checkpointEvery: 5,
        checkpointsKept: 3,
        groupPolicy: { partial: { minSize: 3 } },
        deadlinePolicy: "DEADLINE_POLICY_MASK",
        onMismatch: "MISMATCH_POLICY_WARN",
        mismatchBound: 0.5,
      },
      sampling: { temperature: 0.6, topP: 0.95, topK: 20, maxTokens: 2 },
      limits: {
        maxSteps: 6,
        maxPromptTokens: 64,
        maxResponseTokens: 8,
        enforcePromptLimitEachStep: true,
        episodeTimeout: "90s",
        retryLimit: 1,
        gamma: 0.9,
        overlongFilter: true,
        accumulateThinking: false,
        disableThinking: true,
        phaseTimeouts: { reset: "0.500s", model: "20s", step: "1.500s", reward: "120s", close: "0.250s" },
      },
      seed: "9007199254740991",
      timeout: "3600s",
      roles: [
        { name: "solver", advantage: "ADVANTAGE_ESTIMATOR_RLOO" },
        { name: "critic", advantage: "ADVANTAGE_ESTIMATOR_REINFORCE_PLUS_PLUS_BASELINE", frozen: true },
        { name: "judge", model: { baseUrl: "http://judge", model: "large", apiKeyEnv: "JUDGE_API_KEY" } },
      ],
      weight: 3,
      weights: { dtype: "WEIGHTS_DTYPE_BFLOAT16", shardMib: 512, transport: { stream: {} } },
      sharding: { sequenceParallel: 2, offload: true },
    });
  });

  it("names only what was said", async () => {
    expect(await asSpec(base)).toEqual({
      agent: { kind: "EchoAgent" },
      environment: { kind: "EchoEnv" },
      train: { seeds: { first: "1", count: "10" } },
      algorithm: { policyGradient: { groupSize: 8 } },
      loop: { steps: 2, batchGroups: 4 },
    });
  });

  it("takes an SFT job without a player, and group policies by name", async () => {
    const job = { train: { jsonl: "d.jsonl" }, algorithm: sft({ learningRate: 1e-4, epochs: 4 }) };
    expect(await asSpec({ ...job, loop: { steps: 1, batchGroups: 2, groupPolicy: "drop" } })).toEqual({
      train: { jsonl: "d.jsonl" },
      algorithm: { sft: { optimizer: { learningRate: 1e-4 }, batching: { epochs: 4 } } },
      loop: { steps: 1, batchGroups: 2, groupPolicy: { drop: {} } },
    });
  });

  it("carries the module's own players and environments, and no built-in ones", () => {
    const lake = defineEnvironment({ kind: "lake", create: () => new EchoEnv() });
    const mine = defineRollout({ kind: "mine", run: () => 1 });
    const { agent: _a, ...rest } = base;
    const job = defineJob({ ...rest, rollout: mine, environment: { kind: lake, args: { size: 3 } } });
    expect([job.actors, job.environments]).toEqual([[mine], [lake]]);
    expect(defineJob({ ...base, agent: { kind: "frozenlake" } }).actors).toEqual([]);
    const found = readModule({ default: defineJob(base), EchoAgent, EchoEnv });
    expect([found.actors.map(({ kind }) => kind), found.environments.map(({ kind }) => kind)]).toEqual([
      ["EchoAgent"],
      ["EchoEnv"],
    ]);
  });

  it("opens datasets when the document is asked for, not when the module is loaded", async () => {
    const opened: string[] = [];
    const dataset = (name: string) => ({
      toSpec: async () => {
        opened.push(name);
        return { jsonl: `/data/${name}.jsonl`, shuffleSeed: undefined, take: 3, repeat: 2 };
      },
    });
    const job = defineJob({ ...base, train: () => dataset("train"), validation: dataset("test") });
    expect(opened).toEqual([]);
    expect(await job.document()).toMatchObject({
      train: { jsonl: "/data/train.jsonl", take: "3", repeat: 2 },
      validation: { dataset: { jsonl: "/data/test.jsonl" } },
    });
    expect(opened).toEqual(["train", "test"]);
  });

  it("takes datasets of this SDK, with their order", async () => {
    const train = Dataset.fromSeeds(1, 100).take(5).shuffle(3).repeat(2);
    expect(await defineJob({ ...base, train }).document()).toMatchObject({
      train: { seeds: { first: "1", count: "100" }, take: "5", shuffleSeed: "3", repeat: 2 },
    });
  });

  it("refuses a dataset that a job cannot name, by path", async () => {
    const job = defineJob({ ...base, validation: { dataset: () => ({ toSpec: () => ({ csv: "x.csv" }) }) } });
    await expect(job.document()).rejects.toThrow(
      "validation.dataset.csv: unknown setting\nvalidation.dataset: needs one of jsonl, seeds",
    );
  });
});

describe("unknown and wrong settings", () => {
  // Each line is also a type error; the cast stands for JavaScript, or for settings from outside.
  const wrong = (more: object): string[] => violations(() => defineJob({ ...base, ...more }));

  it("are refused with their path", () => {
    expect(wrong({ optimiser: {} })).toEqual(["optimiser: unknown setting"]);
    expect(wrong({ loop: { steps: 1, batchGroup: 2 } })).toEqual([
      'loop.batchGroup: unknown setting; did you mean "batchGroups"?',
    ]);
    expect(wrong({ limits: { phaseTimeouts: { stap: 1 } } })).toEqual([
      'limits.phaseTimeouts.stap: unknown setting; did you mean "step"?',
    ]);
    expect(wrong({ roles: [{ name: "a", frozn: true }] })).toEqual([
      'roles[0].frozn: unknown setting; did you mean "frozen"?',
    ]);
    expect(wrong({ validation: { dataset: seeds, every: 2 } })).toEqual(["validation.every: unknown setting"]);
    expect(wrong({ limits: { episodeTimeout: "soon" } })[0]).toMatch(/^limits\.episodeTimeout: must be milliseconds/);
    expect(wrong({ name: "Not A Label" })[0]).toMatch(/^name: must be a DNS label/);
    expect(wrong({ algorithm: { policyGradient: {} } })[0]).toMatch(/^algorithm: must be made by grpo/);
    expect(violations(() => grpo({ groupSize: 8, learnRate: 1 } as never))).toEqual([
      "algorithm.policyGradient.learnRate: unknown setting",
    ]);
    expect(violations(() => sft({ groupSize: 8 } as never))).toEqual(["algorithm.sft.groupSize: unknown setting"]);
  });

  it("two players, none with an environment to play, or one of another form are refused", () => {
    expect(wrong({ rollout: { kind: "command" } })).toEqual(["rollout: the job has an agent already"]);
    expect(wrong({ environment: undefined })).toEqual(["environment: is required where an agent plays"]);
    const mine = defineRollout({ kind: "mine", run: () => 1 });
    expect(wrong({ agent: mine, environment: undefined })).toEqual([
      'agent: "mine" is a rollout: give it as `rollout`',
    ]);
    const play = async () => 1;
    const advice = 'play is a function: make a rollout of it, `rollout: defineRollout({ kind: "mine", run: play })`';
    expect(wrong({ agent: play as never, environment: undefined })).toEqual([`agent: ${advice}`]);
    expect(wrong({ agent: undefined, rollout: play as never })).toEqual([`rollout: ${advice}`]);
    expect(wrong({ agent: undefined, workflow: EchoAgent })).toEqual([
      'workflow: "EchoAgent" is an agent: give it as `agent`',
    ]);
    expect(wrong({ environment: EchoAgent })).toEqual(["environment: EchoAgent must extend BaseEnv"]);
  });
});

it("durations are seconds in the document", () => {
  expect([0, 1, 1500, "250ms", "0.5s", "20m", "2h"].map(durationText)).toEqual([
    "0s",
    "0.001s",
    "1.5s",
    "0.25s",
    "0.5s",
    "1200s",
    "7200s",
  ]);
});
