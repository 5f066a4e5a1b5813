// SPDX-License-Identifier: Apache-2.0
import { create, type DescField, type DescMessage, fromJson, type JsonObject } from "@bufbuild/protobuf";
import { RegisterEngineRequestSchema, UnfenceEngineRequestSchema } from "@whetstone/proto/inference/v1/inference";
import { JobSpecSchema } from "@whetstone/proto/jobs/v1/jobs";
import { LossAggregation } from "@whetstone/proto/jobs/v1/jobs";
import { RolloutLimitsSchema } from "@whetstone/proto/types/v1/types";
import { describe, expect, it } from "vitest";
import { checkRules } from "./check.ts";
import { withDefaults } from "./defaults.ts";
import { rulesOf } from "./rules.ts";

const good: JsonObject = {
  name: "fl",
  model: { path: "/models/tiny" },
  agent: { kind: "frozenlake" },
  environment: { kind: "frozenlake" },
  train: { seeds: { first: "1", count: "100" } },
  algorithm: { policyGradient: { groupSize: 4 } },
  loop: { steps: 3, batchGroups: 2 },
};
const read = (change: JsonObject) => fromJson(JobSpecSchema, { ...good, ...change });
const told = (change: JsonObject): string[] =>
  checkRules(JobSpecSchema, read(change)).map(({ path, reason }) => `${path}: ${reason}`);

describe("what a refused value is told", () => {
  it.each<[string, JsonObject, string]>([
    ["a range", { weight: 1001 }, "weight: must be from 1 to 1000, got 1001"],
    [
      "a range with a hint",
      { algorithm: { policyGradient: { groupSize: 1 } } },
      "algorithm.policyGradient.groupSize: must be at least 2: the advantage compares the members of a group",
    ],
    [
      "a range without its lower end",
      { algorithm: { sft: { optimizer: { learningRate: 0 } } } },
      "algorithm.sft.optimizer.learningRate: must be above 0 and at most 1, got 0",
    ],
    [
      "a duration",
      { limits: { phaseTimeouts: { step: "0s" } } },
      "limits.phaseTimeouts.step: must be from 0.001 s to 86400 s, got 0 s",
    ],
    ["a required field", { model: {} }, "model.path: is required: a folder in Hugging Face layout"],
    [
      "a pattern",
      { environment: { kind: "a", pool: "a.b" } },
      "environment.pool: must be the name of a pool: a DNS label",
    ],
    ["one of several", { algorithm: {} }, "algorithm: needs one of sft, policyGradient, dpo"],
    [
      "a rule of two fields",
      { loop: { steps: 0 } },
      "validation: is required when loop.steps is 0: the job would do nothing",
    ],
    ["a name twice", { roles: [{ name: "a" }, { name: "a" }] }, 'roles[1].name: "a" is there already'],
    [
      "a text that is too long",
      { model: { path: "x".repeat(4097) } },
      "model.path: must have at most 4096 characters, has 4097",
    ],
    [
      "a list that is too long",
      { roles: Array.from({ length: 17 }, (_, i) => ({ name: `r${i}` })) },
      "roles: must have at most 16 members, has 17",
    ],
  ])("%s", (_name, change, expected) => {
    expect(told(change)).toEqual([expected]);
  });

  it("a key in place of the name of its variable is not repeated", () => {
    const model = { baseUrl: "http://h", model: "m", apiKeyEnv: "sk-secret" };
    expect(told({ roles: [{ name: "a", model }] }).join()).not.toContain("sk-secret");
  });
});

describe("calls between services", () => {
  it("name the field of a policy that is not as its label says, and of an address that is none", () => {
    const policy = { policy: "a", policyVersion: 3n, label: "a:2", modelPath: "/m" };
    expect(checkRules(UnfenceEngineRequestSchema, create(UnfenceEngineRequestSchema, { policy }))).toEqual([
      { path: "policy.label", reason: '"a:2" is not "a:3"' },
    ]);
    const engine = create(RegisterEngineRequestSchema, { id: "", url: "file:///etc/passwd", controlUrl: "" });
    expect(checkRules(RegisterEngineRequestSchema, engine)).toEqual([
      { path: "id", reason: "is required" },
      { path: "url", reason: "must be an http or https URL" },
    ]);
  });
});

describe("defaults", () => {
  /** Every field below a message, each message once. */
  function* fieldsBelow(desc: DescMessage, seen = new Set<string>()): Generator<DescField> {
    if (seen.has(desc.typeName) || desc.typeName.startsWith("google.")) return;
    seen.add(desc.typeName);
    for (const field of desc.fields) {
      yield field;
      if (field.message) yield* fieldsBelow(field.message, seen);
    }
  }
  const withDefault = [...fieldsBelow(JobSpecSchema)].filter((field) => rulesOf(field).defaultValue !== undefined);

  it("are filled in at every depth, and keep the rules", () => {
    const full = withDefaults(JobSpecSchema, read({ validation: { dataset: { seeds: { count: "2" } } } }));
    expect(checkRules(JobSpecSchema, full)).toEqual([]);
    expect(full.loop).toMatchObject({ steps: 3, maxPolicyLag: 0, checkpointsKept: 2, mismatchBound: 1 });
    expect(full.algorithm?.kind.value).toMatchObject({
      ...{ clipLow: 0.2, normalizeByStd: true, lossAggregation: LossAggregation.TOKEN_MEAN },
      optimizer: { learningRate: 1e-5, beta2: 0.95 },
    });
    expect(full.validation).toMatchObject({ atStart: true, everySteps: 0 });
    expect(full).toMatchObject({ seed: 0n, weight: 1, environment: { pool: "default" } });
    expect(full.limits?.episodeTimeout?.seconds).toBe(300n);
    expect(withDefault.length).toBeGreaterThan(30);
  });

  it("leave alone what was said, and what means something by its absence", () => {
    const full = withDefaults(
      RolloutLimitsSchema,
      create(RolloutLimitsSchema, { maxSteps: 9, accumulateThinking: false }),
    );
    expect(full).toMatchObject({ maxSteps: 9, accumulateThinking: false });
    expect(full.phaseTimeouts).toBeUndefined();
    expect(withDefaults(JobSpecSchema, read({})).loop?.groupPolicy).toBeUndefined();
  });
});
