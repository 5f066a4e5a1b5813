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
  algorithm: { grpo: { groupSize: 4 } },
  loop: { steps: 3, batchGroups: 2 },
};
const paths = (change: JsonObject): string[] =>
  validateJob(fromJson(JobSpecSchema, { ...good, ...change })).map((v) => v.path);

describe("validateJob", () => {
  it("accepts a plain job", () => {
    expect(paths({})).toEqual([]);
  });

  it.each<[string, JsonObject, string[]]>([
    ["a name that is no DNS label", { name: "Frozen Lake" }, ["name"]],
    ["no model", { model: {} }, ["model.path"]],
    ["a group of one with GRPO", { algorithm: { grpo: { groupSize: 1 } } }, ["algorithm.grpo.groupSize"]],
    ["no algorithm", { algorithm: {} }, ["algorithm"]],
    ["no groups in a batch", { loop: { steps: 3 } }, ["loop.batchGroups"]],
    ["a lag beyond 8", { loop: { steps: 3, batchGroups: 2, maxPolicyLag: 9 } }, ["loop.maxPolicyLag"]],
    ["no steps and no validation", { loop: { steps: 0 } }, ["validation"]],
    ["no environment", { environment: {} }, ["environment.kind"]],
    ["a dataset without source", { train: {} }, ["train"]],
    ["greedy sampling for training", { sampling: { temperature: 0 } }, ["sampling.temperature"]],
    ["a temperature of 3", { sampling: { temperature: 3 } }, ["sampling.temperature"]],
    [
      "a learning rate of 0",
      { algorithm: { grpo: { groupSize: 4, optimizer: { learningRate: 0 } } } },
      ["algorithm.grpo.optimizer.learningRate"],
    ],
    [
      "a scale factor that nothing would read (I11)",
      { algorithm: { grpo: { groupSize: 4, lossScaleFactor: 5 } } },
      ["algorithm.grpo.lossScaleFactor"],
    ],
    [
      "a partial group larger than the group",
      { loop: { steps: 3, batchGroups: 2, groupPolicy: { partial: { minSize: 5 } } } },
      ["loop.groupPolicy.partial.minSize"],
    ],
    [
      "two variants of one name",
      { validation: { dataset: { seeds: { first: "1", count: "2" } }, variants: [{ name: "a" }, { name: "a" }] } },
      ["validation.variants[1].name"],
    ],
  ])("refuses %s", (_name, change, expected) => {
    expect(paths(change)).toEqual(expected);
  });

  it("asks nothing of agent and environment for SFT without validation", () => {
    expect(paths({ algorithm: { sft: {} }, agent: {}, environment: {} })).toEqual([]);
  });
});
