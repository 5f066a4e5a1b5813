// SPDX-License-Identifier: Apache-2.0
import { describe, expect, it } from "vitest";

import { KlEstimator, LossAggregation } from "@whetstone/proto/jobs/v1/jobs";

import { CliError } from "../cli-error.ts";
import { readJobSpec } from "./job-file.ts";
import { parsePath, setPath } from "./set-path.ts";

const GOOD = {
  name: "lake",
  model: { path: "models/tiny" },
  agent: { kind: "frozenlake", args: { any: [1, "x", null] } },
  environment: { kind: "frozenlake" },
  train: { seeds: { first: 0, count: "100" } },
  algorithm: { policyGradient: { groupSize: 8, lossAggregation: "TOKEN_MEAN", optimizer: { learningRate: 0.001 } } },
  loop: { steps: 3, batchGroups: 4, groupPolicy: { partial: { minSize: 2 } } },
  limits: { episodeTimeout: "30s" },
};

/** A copy of GOOD with settings changed, by path. */
function changed(...changes: [path: string, value: unknown][]): unknown {
  const copy: Record<string, unknown> = structuredClone(GOOD);
  for (const [path, value] of changes) setPath(copy, parsePath(path) ?? [], value);
  return copy;
}

function violationsOf(document: unknown): string[] {
  try {
    readJobSpec(document, "/jobs");
    return [];
  } catch (error) {
    if (!(error instanceof CliError)) throw error;
    expect(error.exitCode).toBe(2);
    return error.violations.map(({ path, reason }) => `${path}: ${reason}`);
  }
}

describe("readJobSpec", () => {
  it("makes the message and takes paths from the job file's folder", () => {
    const spec = readJobSpec(changed(["validation.dataset.jsonl", "../tasks.jsonl"]), "/jobs");
    expect(spec.model?.path).toBe("/jobs/models/tiny");
    expect(spec.validation?.dataset?.source).toEqual({ case: "jsonl", value: "/tasks.jsonl" });
    expect(spec.train?.source.value).toMatchObject({ first: 0n, count: 100n });
    expect(spec.limits?.episodeTimeout?.seconds).toBe(30n);
    expect(spec.algorithm?.kind.value).toMatchObject({ groupSize: 8, lossAggregation: LossAggregation.TOKEN_MEAN });
  });

  it("takes the critic's folder from the job file's", () => {
    const spec = readJobSpec(changed(["algorithm.policyGradient.critic", { model: "base" }]), "/jobs");
    expect(spec.algorithm?.kind.value).toMatchObject({ critic: { model: "/jobs/base" } });
  });

  it("takes the reference's folder from the job file's", () => {
    const spec = readJobSpec(changed(["algorithm.policyGradient.kl", { estimator: "k3+", model: "base" }]), "/jobs");
    expect(spec.algorithm?.kind.value).toMatchObject({ kl: { model: "/jobs/base", estimator: KlEstimator.K3_PLUS } });
  });

  it("leaves absolute paths alone", () => {
    expect(readJobSpec(changed(["model.path", "/m"]), "/jobs").model?.path).toBe("/m");
  });

  it.each<[path: string, value: unknown, expected: string]>([
    ["lop", {}, 'lop: unknown setting; did you mean "loop"?'],
    ["loop.bachGroups", 1, 'loop.bachGroups: unknown setting; did you mean "batchGroups"?'],
    ["loop.batch_groups", 1, 'loop.batch_groups: unknown setting; did you mean "batchGroups"?'],
    ["loop.zzzzz", 1, "loop.zzzzz: unknown setting"],
    ["loop.steps", "three", 'loop.steps: must be a whole number, not the text "three"'],
    ["loop.steps", 1.5, "loop.steps: must be a whole number, not 1.5"],
    ["loop.steps", -1, "loop.steps: must be from 0 to 1000000, got -1"],
    ["seed", 2 ** 60, "seed: put quotes around a number this large"],
    ["name", 7, "name: must be text, not 7"],
    ["model", ["x"], "model: must be a mapping of settings, not a list"],
    ["model", null, "model: has no value: give one or remove the setting"],
    [
      "algorithm.policyGradient.normalizeByStd",
      "yes",
      'algorithm.policyGradient.normalizeByStd: must be true or false, not the text "yes"',
    ],
    ["timeout", 30, 'timeout: must be a duration like "250ms", "30s" or "20m", not 30'],
    ["agent.args", "x", 'agent.args: must be a mapping, not the text "x"'],
    ["sampling.temperature", Infinity, "sampling.temperature: must be a number, not Infinity"],
    ["algorithm.policyGradient.lossAggregation", "TOKEN_MEEN", 'did you mean "token-mean"?'],
    ["train.jsonl", "x", "train: takes one of jsonl, seeds, not 2 of them"],
    ["roles", [{ name: "a" }, { name: "b", frozn: true }], 'roles[1].frozn: unknown setting; did you mean "frozen"?'],
    ["weight", 0, "weight: must be from 1 to 1000, got 0"],
    ["limits.episodeTimeout", "0s", "limits.episodeTimeout: must be from 0.001 s to 86400 s, got 0 s"],
    ["roles", [{}], "roles[0].name: is required: 1 to 64 characters"],
    ["environment.pool", "a.b", "environment.pool: must be the name of a pool: a DNS label"],
    ["train", { take: 5 }, "train: needs one of jsonl, seeds"],
    ["loop.groupPolicy", "dorp", 'loop.groupPolicy: "dorp" is none of complete, drop; did you mean "drop"?'],
  ])("refuses %s = %j", (path, value, expected) => {
    const violations = violationsOf(changed([path, value]));
    expect(violations).toHaveLength(1);
    expect(violations[0]).toContain(expected);
  });

  it("names every violation at once", () => {
    expect(violationsOf(changed(["lop", 1], ["name", 7], ["loop.steps", "x"]))).toHaveLength(3);
  });

  it.each([
    ["a list", []],
    ["text", "x"],
    ["nothing", null],
  ])("refuses %s as a whole", (_, document) => {
    expect(violationsOf(document)[0]).toMatch(/^\(root\): must be a mapping/);
  });

  it.each(["mask", "MASK", "DEADLINE_POLICY_MASK"])("takes a choice in short and as protobuf has it: %s", (name) => {
    expect(readJobSpec(changed(["loop.deadlinePolicy", name]), "/").loop?.deadlinePolicy).toBe(3);
  });

  it("takes large integers as text, durations with a unit, a group policy by its name", () => {
    const change: [string, unknown][] = [
      ["train.shuffleSeed", "18446744073709551615"],
      ["limits.episodeTimeout", "20m"],
      ["loop.groupPolicy", "drop"],
    ];
    expect(readJobSpec(changed(...change), "/")).toMatchObject({
      train: { shuffleSeed: 2n ** 64n - 1n },
      limits: { episodeTimeout: { seconds: 1200n } },
      loop: { groupPolicy: { kind: { case: "drop" } } },
    });
  });
});
