// SPDX-License-Identifier: Apache-2.0
// The definition of TrainingJob before a real API server: what it takes, and what each rule refuses.
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import {
  CONDITIONS,
  REASONS,
  TRAINING_JOBS,
  type TrainingJobStatus,
} from "../../services/controller/src/operator/training-job/schema.ts";
import { installDefinitions, openTestCluster, type TestCluster } from "../../tests/support/cluster.ts";

let cluster: TestCluster;
const BASE = "base";

beforeAll(async () => {
  installDefinitions();
  cluster = await openTestCluster("crd");
  expect((await create(BASE)).text).toContain("created");
});
afterAll(() => cluster[Symbol.asyncDispose]());

type Json = Record<string, unknown>;

const job = (): Json => ({
  model: { path: "/models/a" },
  agent: { kind: "frozenlake", args: { variant: "compact", deep: { a: [1, 2] } } },
  environment: { kind: "frozenlake" },
  train: { seeds: { first: 1, count: "100000000000000000" } },
  algorithm: { policyGradient: { groupSize: 4, optimizer: { learningRate: 5e-4 } } },
  loop: { steps: 10, batchGroups: 8, maxPolicyLag: 1, groupPolicy: { drop: {} } },
  limits: { episodeTimeout: "120s" },
});

const object = (name: string, spec: Json): Json => ({
  ...{ apiVersion: "whetstone.dev/v1alpha1", kind: "TrainingJob" },
  ...{ metadata: { name, namespace: cluster.namespace }, spec },
});

const create = (name: string, more: Json = {}, spec: Json = {}) =>
  cluster.kubectl(["create"], object(name, { ...spec, job: { ...job(), ...more } }));
const patch = (spec: Json) => cluster.kubectl(["patch", "tj", BASE, "--type", "merge", "-p", JSON.stringify({ spec })]);

describe("what is taken in", () => {
  it("is stored as it was said, with the defaults of the object itself", async () => {
    const stored = await cluster.kube.get(TRAINING_JOBS, BASE);
    expect(stored?.spec).toEqual({
      ...{ suspend: false, cancel: false, managedBy: "whetstone.dev/controller" },
      job: job(),
    });
  });

  const podSets = [{ name: "all", template: {} }];
  const refused: [string, Json, Json, RegExp][] = [
    ["a job without a model", { model: undefined }, {}, /spec\.job\.model: Required/],
    ["a loop without steps", { loop: { batchGroups: 1 } }, {}, /spec\.job\.loop\.steps: Required/],
    ["more lag than is allowed", { loop: { steps: 1, maxPolicyLag: 9 } }, {}, /maxPolicyLag.*less than or equal to 8/s],
    [
      "a group of none",
      { algorithm: { policyGradient: { groupSize: 0 } } },
      {},
      /groupSize.*greater than or equal to 1/s,
    ],
    ["a rate of 0", { algorithm: { sft: { optimizer: { learningRate: 0 } } } }, {}, /learningRate.*greater than 0/s],
    [
      "two algorithms",
      { algorithm: { policyGradient: { groupSize: 2 }, sft: {} } },
      {},
      /exactly one of sft, policyGradient/,
    ],
    ["no algorithm in it", { algorithm: {} }, {}, /exactly one of sft, policyGradient/],
    ["tasks from nowhere", { train: { take: 1 } }, {}, /exactly one of jsonl, seeds/],
    [
      "two group policies",
      { loop: { steps: 1, groupPolicy: { drop: {}, complete: {} } } },
      {},
      /at most one of complete/,
    ],
    ["an unknown word", { loop: { steps: 1, deadlinePolicy: "LATER" } }, {}, /deadlinePolicy.*Unsupported value/s],
    ["a duration of minutes", { timeout: "5m" }, {}, /timeout.*should match/s],
    ["a negative seed", { seed: -1 }, {}, /seed.*greater than or equal to 0/s],
    ["a seed in words", { seed: "one" }, {}, /seed.*should match/s],
    ["a digest that is none", { module: { digest: "abc" } }, {}, /digest.*should match/s],
    [
      "a key in place of its variable",
      { roles: [{ name: "j", model: { baseUrl: "http://a", model: "m", apiKeyEnv: "sk-1" } }] },
      {},
      /apiKeyEnv.*should match/s,
    ],
    ["a queue without pod sets", {}, { queueName: "gpu" }, /queueName and podSets need each other/],
    ["a priority without a queue", {}, { priorityClassName: "high" }, /only used with queueName/],
    ["workers without verl", {}, { trainer: { workers: 2 } }, /are of backend verl/],
    ["another backend", {}, { trainer: { backend: "x" } }, /backend.*Unsupported value/s],
    ["no time at all", {}, { deadlines: { activeSeconds: 0 } }, /activeSeconds.*greater than or equal to 1/s],
    [
      "another clean-up",
      {},
      { queueName: "q", podSets, cleanup: { runFolder: "Burn" } },
      /runFolder.*Unsupported value/s,
    ],
    ["a field that is none", { lopo: 1 }, {}, /unknown field "spec\.job\.lopo"/],
    ["a name in the text", { name: "other" }, {}, /unknown field "spec\.job\.name"/],
  ];
  it.each(refused)("is never %s", async (_, more, spec, reason) => {
    const { code, text } = await create("refused", more, spec);
    expect(text).toMatch(reason);
    expect(code).not.toBe(0);
  });

  it.each(["a.b", "x".repeat(53)])("has a name that is a label of at most 52 characters: not %s", async (name) => {
    expect((await create(name)).text).toContain("DNS label of at most 52 characters");
  });
});

describe("what may change", () => {
  const immutable: [string, Json, RegExp][] = [
    ["the model", { job: { model: { path: "/models/b" } } }, /job\.model.*cannot be changed/],
    [
      "an argument that the schema does not know",
      { job: { agent: { args: { deep: { a: [1, 3] } } } } },
      /job\.agent.*cannot be changed/,
    ],
    ["by taking something away", { job: { environment: null } }, /job\.environment.*cannot be changed/],
    [
      "by adding something",
      { job: { validation: { dataset: { seeds: { count: 1 } } } } },
      /job\.validation.*cannot be changed/,
    ],
    ["the batch", { job: { loop: { batchGroups: 4 } } }, /loop\.batchGroups.*cannot be changed/],
    ["the seed", { job: { seed: 3 } }, /job\.seed.*cannot be changed/],
    ["who manages it", { managedBy: "other" }, /managedBy.*cannot be changed/],
    ["the queue", { queueName: "q", podSets: [{ name: "a", template: {} }] }, /queueName.*cannot be changed/],
    ["the trainer", { trainer: { backend: "verl" } }, /trainer.*cannot be changed/],
    ["how often it restarts", { failurePolicy: { maxRestarts: 3 } }, /failurePolicy.*cannot be changed/],
  ];
  it.each(immutable)("is not %s", async (_, spec, reason) => {
    expect((await patch(spec)).text).toMatch(reason);
  });

  const mutable: [string, Json][] = [
    ["suspend", { suspend: true }],
    ["suspend, back", { suspend: false }],
    ["more steps", { job: { loop: { steps: 20 } } }],
    ["fewer steps, none of them done", { job: { loop: { steps: 15 } } }],
    ["timeout and weight", { job: { timeout: "60s", weight: 4 } }],
    ["deadlines", { deadlines: { activeSeconds: 60, noProgressSeconds: 5 } }],
    ["clean-up", { cleanup: { ttlSecondsAfterFinished: 60, runFolder: "Delete" } }],
  ];
  it.each(mutable)("is %s", async (_, spec) => {
    expect(await patch(spec)).toMatchObject({ code: 0, text: expect.stringContaining("patched") as string });
  });

  it("is not steps that were done, nor a cancel", async () => {
    await cluster.kube.applyStatus(TRAINING_JOBS, { metadata: { name: BASE }, status: { step: 12 } });
    expect((await patch({ job: { loop: { steps: 11 } } })).text).toContain("must not be below the steps done");
    expect((await patch({ job: { loop: { steps: 12 } } })).code).toBe(0);
    expect((await patch({ cancel: true })).code).toBe(0);
    for (const cancel of [false, null])
      expect((await patch({ cancel })).text).toContain("a job that was cancelled stays so");
    const completionTime = "2026-01-01T00:00:00Z";
    await cluster.kube.applyStatus(TRAINING_JOBS, { metadata: { name: BASE }, status: { step: 12, completionTime } });
    expect((await patch({ job: { loop: { steps: 30 } } })).text).toContain("the job has ended");
  });
});

describe("the status", () => {
  const write = (type: string, reason: string) => {
    const condition = {
      type,
      status: "True" as const,
      reason,
      message: "",
      lastTransitionTime: "2026-01-01T00:00:00Z",
    };
    const status = { conditions: [condition] } as TrainingJobStatus;
    return cluster.kube.applyStatus(TRAINING_JOBS, { metadata: { name: BASE }, status });
  };

  it("has every condition and every reason of the code, and no others", async () => {
    for (const type of CONDITIONS) await write(type, REASONS[0]);
    for (const reason of REASONS) await write(CONDITIONS[0], reason);
    await expect(write("Happy", REASONS[0])).rejects.toMatchObject({ code: "INVALID_ARGUMENT" });
    await expect(write(CONDITIONS[0], "Whatever")).rejects.toMatchObject({ code: "INVALID_ARGUMENT" });
  });
});
