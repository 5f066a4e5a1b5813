// SPDX-License-Identifier: Apache-2.0
// Long on purpose: a list of cases, one a rule of a job.
import { fromJson, type JsonObject } from "@bufbuild/protobuf";
import { JobSpecSchema } from "@whetstone/proto/jobs/v1/jobs";
import { describe, expect, it } from "vitest";
import { validateJob } from "./validate-job.ts";

const good: JsonObject = {
  name: "fl",
  model: { path: "/models/tiny" },
  agent: { kind: "frozenlake" },
  environment: { kind: "frozenlake" },
  train: { seeds: { first: "1", count: "100" } },
  algorithm: { policyGradient: { groupSize: 4 } },
  loop: { steps: 3, batchGroups: 2 },
};
const optimizer = (settings: JsonObject): JsonObject => ({
  algorithm: { policyGradient: { groupSize: 4, optimizer: settings } },
});
const validated = (change: JsonObject): JsonObject => ({ dataset: { seeds: { count: "2" } }, ...change });
const paths = (change: JsonObject): string[] =>
  validateJob(fromJson(JobSpecSchema, { ...good, ...change })).map((v) => v.path);

describe("validateJob", () => {
  it("accepts a plain job", () => {
    expect(paths({})).toEqual([]);
  });

  it.each<[string, JsonObject, string[]]>([
    ["a name that is no DNS label", { name: "Frozen Lake" }, ["name"]],
    ["no model", { model: {} }, ["model.path"]],
    [
      "a group of one with GRPO",
      { algorithm: { policyGradient: { groupSize: 1 } } },
      ["algorithm.policyGradient.groupSize"],
    ],
    ["no algorithm", { algorithm: {} }, ["algorithm"]],
    ["no groups in a batch", { loop: { steps: 3 } }, ["loop.batchGroups"]],
    [
      "a mismatch bound without end",
      { loop: { steps: 3, batchGroups: 2, mismatchBound: "Infinity" } },
      ["loop.mismatchBound"],
    ],
    ["a lag beyond 8", { loop: { steps: 3, batchGroups: 2, maxPolicyLag: 9 } }, ["loop.maxPolicyLag"]],
    ["no steps and no validation", { loop: { steps: 0 } }, ["validation"]],
    ["no environment", { environment: {} }, ["environment.kind"]],
    ["a dataset without source", { train: {} }, ["train"]],
    ["greedy sampling for training", { sampling: { temperature: 0 } }, ["sampling.temperature"]],
    ["a temperature of 3", { sampling: { temperature: 3 } }, ["sampling.temperature"]],
    [
      "a learning rate of 0",
      { algorithm: { policyGradient: { groupSize: 4, optimizer: { learningRate: 0 } } } },
      ["algorithm.policyGradient.optimizer.learningRate"],
    ],
    [
      "a scale factor that nothing would read (I11)",
      { algorithm: { policyGradient: { groupSize: 4, lossScaleFactor: 5 } } },
      ["algorithm.policyGradient.lossScaleFactor"],
    ],
    [
      "whole groups of demonstrations, which have none (I11)",
      { algorithm: { sft: { batching: { wholeGroups: true } } } },
      ["algorithm.sft.batching.wholeGroups"],
    ],
    [
      "whole groups of pairs, which are never cut (I11)",
      { algorithm: { dpo: { batching: { wholeGroups: true } } } },
      ["algorithm.dpo.batching.wholeGroups"],
    ],
    [
      "GAE without a critic",
      { algorithm: { policyGradient: { groupSize: 1, advantage: "ADVANTAGE_ESTIMATOR_GAE" } } },
      ["algorithm.policyGradient.critic"],
    ],
    [
      "a role's GAE without a critic",
      { roles: [{ name: "a", advantage: "ADVANTAGE_ESTIMATOR_GAE" }] },
      ["algorithm.policyGradient.critic"],
    ],
    [
      "no advantage and nothing else to learn from",
      { algorithm: { policyGradient: { groupSize: 1, advantage: "ADVANTAGE_ESTIMATOR_NONE" } } },
      ["algorithm.policyGradient.kl"],
    ],
    [
      "a role with no advantage and nothing else to learn from",
      { roles: [{ name: "a", advantage: "ADVANTAGE_ESTIMATOR_NONE" }] },
      ["algorithm.policyGradient.kl"],
    ],
    [
      "a discount of a divergence in the loss, which nothing would read (I11)",
      { algorithm: { policyGradient: { groupSize: 4, kl: { discount: 0.9 } } } },
      ["algorithm.policyGradient.kl.discount"],
    ],
    [
      "a reference that is both a folder and an engine",
      { algorithm: { policyGradient: { groupSize: 4, kl: { model: "m", engine: "http://teacher:8000" } } } },
      ["algorithm.policyGradient.kl.engine"],
    ],
    [
      "a temperature that a teacher's engine does not have",
      { algorithm: { policyGradient: { groupSize: 4, kl: { engine: "http://t:1" } } }, sampling: { temperature: 0.7 } },
      ["sampling.temperature"],
    ],
    [
      "an engine that is no URL",
      { algorithm: { policyGradient: { groupSize: 4, kl: { engine: "teacher:8000" } } } },
      ["algorithm.policyGradient.kl.engine"],
    ],
    [
      "a critic that nothing would read (I11)",
      { algorithm: { policyGradient: { groupSize: 4, critic: {} } } },
      ["algorithm.policyGradient.critic"],
    ],
    [
      "a frozen role with a loss",
      { roles: [{ name: "a", frozen: true, loss: "POLICY_LOSS_GSPO" }] },
      ["roles[0].loss"],
    ],
    [
      "a role with a loss in SFT",
      { algorithm: { sft: {} }, roles: [{ name: "a", loss: "POLICY_LOSS_GSPO" }] },
      ["roles[0].loss"],
    ],
    [
      "a role's DRO without its weight",
      { roles: [{ name: "a", loss: "POLICY_LOSS_DRO" }] },
      ["algorithm.policyGradient.droBeta"],
    ],
    [
      "a weight of DRO that no loss reads (I11)",
      { algorithm: { policyGradient: { groupSize: 4, droBeta: 0.1 } } },
      ["algorithm.policyGradient.droBeta"],
    ],
    [
      "a clip that no loss reads (I11)",
      { algorithm: { policyGradient: { groupSize: 4, loss: "POLICY_LOSS_SAPO", clipHigh: 0.3 } } },
      ["algorithm.policyGradient.clipHigh"],
    ],
    [
      "a dual clip that no loss reads (I11)",
      { algorithm: { policyGradient: { groupSize: 4, loss: "POLICY_LOSS_CISPO", clipDual: 4 } } },
      ["algorithm.policyGradient.clipDual"],
    ],
    [
      "stepwise advantages of ReMax",
      {
        algorithm: {
          policyGradient: {
            groupSize: 4,
            advantage: "ADVANTAGE_ESTIMATOR_REMAX",
            groupingLevel: "GROUPING_LEVEL_STEP",
          },
        },
      },
      ["algorithm.policyGradient.groupingLevel"],
    ],
    [
      "stepwise advantages of a role's ReMax",
      {
        algorithm: { policyGradient: { groupSize: 4, groupingLevel: "GROUPING_LEVEL_STEP" } },
        roles: [{ name: "a", advantage: "ADVANTAGE_ESTIMATOR_REMAX" }],
      },
      ["algorithm.policyGradient.groupingLevel"],
    ],
    [
      "a penalty of whole trajectories beside stepwise advantages",
      {
        algorithm: {
          policyGradient: {
            groupSize: 4,
            groupingLevel: "GROUPING_LEVEL_STEP",
            overlong: { maxTokens: 9, bufferTokens: 8 },
          },
        },
      },
      ["algorithm.policyGradient.overlong"],
    ],
    [
      "a custom advantage without its module",
      { algorithm: { policyGradient: { groupSize: 4, advantage: "ADVANTAGE_ESTIMATOR_CUSTOM" } } },
      ["algorithm.policyGradient.module"],
    ],
    [
      "a custom loss of a role without its module",
      { roles: [{ name: "solver", loss: "POLICY_LOSS_CUSTOM" }] },
      ["algorithm.policyGradient.module"],
    ],
    [
      "a module that nothing would read (I11)",
      { algorithm: { policyGradient: { groupSize: 4, module: "x", moduleDigest: "0".repeat(64) } } },
      ["algorithm.policyGradient.module"],
    ],
    [
      "a module without its digest",
      { algorithm: { policyGradient: { groupSize: 4, loss: "POLICY_LOSS_CUSTOM", module: "x" } } },
      ["algorithm.policyGradient.moduleDigest"],
    ],
    [
      "a threshold that nothing would read (I11)",
      { algorithm: { policyGradient: { groupSize: 4, rewardThreshold: 0.5 } } },
      ["algorithm.policyGradient.rewardThreshold"],
    ],
    [
      "a lambda that nothing would read (I11)",
      { algorithm: { policyGradient: { groupSize: 4, gaeLambda: 0.9 } } },
      ["algorithm.policyGradient.gaeLambda"],
    ],
    [
      "a partial group larger than the group",
      { loop: { steps: 3, batchGroups: 2, groupPolicy: { partial: { minSize: 5 } } } },
      ["loop.groupPolicy.partial.minSize"],
    ],
    [
      "a batch whose manifest is too large for a message",
      {
        name: "n".repeat(52),
        algorithm: { policyGradient: { groupSize: 8 } },
        loop: { steps: 3, batchGroups: 4096, groupPolicy: { complete: {} } },
      },
      ["loop.batchGroups"],
    ],
    [
      "dynamic sampling without a comparison",
      {
        algorithm: {
          policyGradient: { groupSize: 4, advantage: "ADVANTAGE_ESTIMATOR_REINFORCE", dynamicSampling: {} },
        },
      },
      ["algorithm.policyGradient.dynamicSampling"],
    ],
    [
      "a buffer longer than the longest length",
      { algorithm: { policyGradient: { groupSize: 4, overlong: { maxTokens: 8, bufferTokens: 9 } } } },
      ["algorithm.policyGradient.overlong.bufferTokens"],
    ],
    ["a weight of 0", { weight: 0 }, ["weight"]],
    ["a weight above 1000", { weight: 1001 }, ["weight"]],
    ["no tasks taken", { train: { seeds: { first: "1", count: "100" }, take: "0" } }, ["train.take"]],
    ["tasks repeated never", { train: { seeds: { first: "1", count: "100" }, repeat: 0 } }, ["train.repeat"]],
    ["a phase without time", { limits: { phaseTimeouts: { step: "0s" } } }, ["limits.phaseTimeouts.step"]],
    ["a digest that is none", { module: { digest: "ABC" } }, ["module.digest"]],
    ["code inside the spec", { module: { digest: "a".repeat(64), code: "eA==" } }, ["module.code"]],
    ["a role without a name", { roles: [{}] }, ["roles[0].name"]],
    ["two roles of one name", { roles: [{ name: "a" }, { name: "a" }] }, ["roles[1].name"]],
    ["an unknown estimator", { roles: [{ name: "a", advantage: 99 }] }, ["roles[0].advantage"]],
    [
      "an estimator that a frozen role would not use (I11)",
      { roles: [{ name: "a", frozen: true, advantage: "ADVANTAGE_ESTIMATOR_RLOO" }] },
      ["roles[0].advantage"],
    ],
    [
      "an estimator with SFT",
      { algorithm: { sft: {} }, roles: [{ name: "a", advantage: "ADVANTAGE_ESTIMATOR_GRPO" }] },
      ["roles[0].advantage"],
    ],
    [
      "a role's model that is no URL",
      { roles: [{ name: "a", model: { baseUrl: "localhost:8000", model: "m" } }] },
      ["roles[0].model.baseUrl"],
    ],
    [
      "a role's model with the version in its URL, no name and a key in place of its variable",
      { roles: [{ name: "a", model: { baseUrl: "http://h/v1", apiKeyEnv: "NATS_PASSWORD" } }] },
      ["roles[0].model.baseUrl", "roles[0].model.model", "roles[0].model.apiKeyEnv"],
    ],
    [
      "two variants of one name",
      { validation: { dataset: { seeds: { first: "1", count: "2" } }, variants: [{ name: "a" }, { name: "a" }] } },
      ["validation.variants[1].name"],
    ],
    ["a pool that is no name", { environment: { kind: "frozenlake", pool: "a.b" } }, ["environment.pool"]],
    [
      "free-form arguments of a megabyte",
      { agent: { kind: "a", args: { text: "x".repeat(2 ** 20) } } },
      ["agent.args"],
    ],
    ["a job's timeout of years", { timeout: "99999999s" }, ["timeout"]],
    ["a seed that is no exact number here", { seed: String(2 ** 60) }, ["seed"]],
    [
      "warm-up steps of 4e9",
      optimizer({ warmupSteps: 4_000_000_000 }),
      ["algorithm.policyGradient.optimizer.warmupSteps"],
    ],
    ["a learning rate of 1e30", optimizer({ learningRate: 1e30 }), ["algorithm.policyGradient.optimizer.learningRate"]],
    [
      "an infinite learning rate",
      optimizer({ learningRate: "Infinity" }),
      ["algorithm.policyGradient.optimizer.learningRate"],
    ],
    [
      "a clip that is no number",
      optimizer({ gradientClip: "NaN" }),
      ["algorithm.policyGradient.optimizer.gradientClip"],
    ],
    [
      "an infinite dual clip",
      { algorithm: { policyGradient: { groupSize: 4, clipDual: "Infinity" } } },
      ["algorithm.policyGradient.clipDual"],
    ],
    [
      "a dual clip that is no number",
      { algorithm: { policyGradient: { groupSize: 4, clipDual: "NaN" } } },
      ["algorithm.policyGradient.clipDual"],
    ],
    [
      "an algorithm that no step uses",
      { loop: { steps: 0 }, validation: validated({}), algorithm: { policyGradient: {} } },
      ["algorithm.policyGradient.groupSize"],
    ],
    [
      "a batch too large for its manifest",
      { algorithm: { policyGradient: { groupSize: 1024 } }, loop: { steps: 3, batchGroups: 33 } },
      ["algorithm.policyGradient.groupSize"],
    ],
    [
      "SFT with a group that must have two",
      { algorithm: { sft: {} }, loop: { steps: 1, batchGroups: 1, groupPolicy: { partial: { minSize: 2 } } } },
      ["loop.groupPolicy.partial.minSize"],
    ],
    [
      "an estimator with DPO",
      { algorithm: { dpo: {} }, roles: [{ name: "a", advantage: "ADVANTAGE_ESTIMATOR_GRPO" }] },
      ["roles[0].advantage"],
    ],
    [
      "half a pair",
      { algorithm: { dpo: {} }, loop: { steps: 1, batchGroups: 1, groupPolicy: { drop: {} } } },
      ["loop.groupPolicy"],
    ],
    [
      "more pairs than a batch has",
      { algorithm: { dpo: {} }, loop: { steps: 1, batchGroups: 16385 } },
      ["loop.batchGroups"],
    ],
    ["a beta of 0", { algorithm: { dpo: { beta: 0 } } }, ["algorithm.dpo.beta"]],
    [
      "a label smoothing that IPO has no use for",
      { algorithm: { dpo: { variant: "DPO_VARIANT_IPO", labelSmoothing: 0.1 } } },
      ["algorithm.dpo.labelSmoothing"],
    ],
    ["a top-k in training that would make episodes huge", { sampling: { topK: 513 } }, ["sampling.topK"]],
    [
      "top-k of 1e9",
      { validation: validated({ variants: [{ name: "a", sampling: { topK: 1e9 } }] }) },
      ["validation.variants[0].sampling.topK"],
    ],
    [
      "a temperature that is 0 to an engine and not to the trainer",
      { sampling: { temperature: 1e-30 } },
      ["sampling.temperature"],
    ],
    [
      "more seeds than numbers",
      { train: { seeds: { first: "1", count: String(2n ** 64n - 1n) } } },
      ["train.seeds.count"],
    ],
    [
      "a shuffle of more seeds than fit in memory",
      { train: { seeds: { count: "5000000000" }, shuffleSeed: "1" } },
      ["train.seeds.count"],
    ],
    [
      "a validation of more episodes than fit in memory",
      { validation: validated({ dataset: { seeds: { count: "100000000" } } }) },
      ["validation.dataset"],
    ],
    [
      "a validation whose attempts are too many",
      { validation: validated({ dataset: { seeds: { count: "1000" } }, variants: [{ name: "a", attempts: 10000 }] }) },
      ["validation.dataset"],
    ],
    ["a validation after every 4e9 steps", { validation: validated({ everySteps: 4e9 }) }, ["validation.everySteps"]],
  ])("refuses %s", (_name, change, expected) => {
    expect(paths(change)).toEqual(expected);
  });

  it("lets jobs train what was drawn from a part of the vocabulary", () => {
    expect(paths({ sampling: { topP: 0.9, topK: 512, minP: 0.05 } })).toEqual([]);
  });

  it("lets validation and SFT sample from a larger part, which nobody trains on", () => {
    const sampling = { topP: 0.9, topK: 2000 };
    expect(paths({ validation: validated({ variants: [{ name: "a", sampling }] }) })).toEqual([]);
    expect(paths({ loop: { steps: 0 }, validation: validated({}), sampling })).toEqual([]);
    expect(paths({ algorithm: { sft: {} }, sampling })).toEqual([]);
  });

  it("accepts roles, a weight and phase timeouts", () => {
    const model = { baseUrl: "https://models.example", model: "judge-1", apiKeyEnv: "JUDGE_API_KEY" };
    const roles = [
      { name: "solver", advantage: "ADVANTAGE_ESTIMATOR_RLOO" },
      { name: "critic", frozen: true },
      { name: "judge", model },
    ];
    expect(paths({ roles, weight: 1000, limits: { phaseTimeouts: { close: "0.5s" } } })).toEqual([]);
  });

  it("accepts settings that only the loss of a role reads", () => {
    const policyGradient = { groupSize: 4, loss: "POLICY_LOSS_REINFORCE", clipHigh: 0.3, clipDual: 3, droBeta: 0.1 };
    const roles = [
      { name: "solver", loss: "POLICY_LOSS_CLIPPED" },
      { name: "judge", loss: "POLICY_LOSS_DRO" },
    ];
    expect(paths({ algorithm: { policyGradient }, roles })).toEqual([]);
  });

  it("leaves it to the module's kinds whether there must be an environment", () => {
    const { environment: _none, ...without } = good;
    const rest = { ...without, module: { digest: "a".repeat(64) } };
    expect(validateJob(fromJson(JobSpecSchema, rest))).toEqual([]);
    expect(validateJob(fromJson(JobSpecSchema, { ...without, agent: { kind: "command" } }))).toEqual([]);
    expect(validateJob(fromJson(JobSpecSchema, without)).map(({ path }) => path)).toEqual(["environment.kind"]);
  });

  it.each(["sft", "dpo"])(
    "asks nothing of agent and environment for %s, whose validation nobody has to play",
    (kind) => {
      const { agent: _agent, environment: _environment, ...without } = good;
      const job = (more: JsonObject) =>
        validateJob(fromJson(JobSpecSchema, { ...without, algorithm: { [kind]: {} }, ...more }));
      expect(job({})).toEqual([]);
      expect(job({ validation: validated({}) })).toEqual([]);
      expect(job({ validation: validated({ variants: [{ name: "a" }] }) })).toMatchObject([
        { path: "validation.variants" },
      ]);
      expect(job({ validation: validated({}), agent: { kind: "a" } })).toMatchObject([{ path: "environment.kind" }]);
      expect(job({ validation: validated({}), loop: { steps: 0 } }).map(({ path }) => path)).toEqual([
        "agent.kind",
        "environment.kind",
      ]);
    },
  );
});
