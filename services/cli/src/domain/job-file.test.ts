// SPDX-License-Identifier: Apache-2.0
import { describe, expect, it } from "vitest";

import { LossAggregation } from "@whetstone/proto/jobs/v1/jobs";

/** A job file as far as these tests change it. */
type Draft = Record<string, unknown> &
  Record<"model" | "agent" | "train" | "loop", Record<string, unknown>> & {
    algorithm: { grpo: Record<string, unknown> };
  };

import { CliError } from "./cli-error.ts";
import { readJobSpec } from "./job-file.ts";

const GOOD = {
  name: "lake",
  model: { path: "models/tiny" },
  agent: { kind: "frozenlake", args: { any: [1, "x", null] } },
  environment: { kind: "frozenlake" },
  train: { seeds: { first: 0, count: "100" } },
  algorithm: { grpo: { groupSize: 8, lossAggregation: "TOKEN_MEAN", optimizer: { learningRate: 0.001 } } },
  loop: { steps: 3, batchGroups: 4, groupPolicy: { partial: { minSize: 2 } } },
  limits: { episodeTimeout: "30s" },
};

/** A copy of GOOD with one setting changed. */
function changed(change: (job: Draft) => void): unknown {
  const copy = structuredClone(GOOD);
  change(copy);
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
    const spec = readJobSpec(
      changed((job) => (job["validation"] = { dataset: { jsonl: "../tasks.jsonl" } })),
      "/jobs",
    );
    expect(spec.model?.path).toBe("/jobs/models/tiny");
    expect(spec.validation?.dataset?.source).toEqual({ case: "jsonl", value: "/tasks.jsonl" });
    expect(spec.train?.source.value).toMatchObject({ first: 0n, count: 100n });
    expect(spec.limits?.episodeTimeout?.seconds).toBe(30n);
    expect(spec.algorithm?.kind.value).toMatchObject({ groupSize: 8, lossAggregation: LossAggregation.TOKEN_MEAN });
  });

  it("leaves absolute paths alone", () => {
    expect(
      readJobSpec(
        changed((job) => (job["model"].path = "/m")),
        "/jobs",
      ).model?.path,
    ).toBe("/m");
  });

  it.each<[string, (job: Draft) => void, string]>([
    ["unknown at the top", (job) => (job["lop"] = {}), 'lop: unknown setting; did you mean "loop"?'],
    [
      "unknown inside",
      (job) => (job["loop"].bachGroups = 1),
      'loop.bachGroups: unknown setting; did you mean "batchGroups"?',
    ],
    [
      "the proto's name",
      (job) => (job["loop"].batch_groups = 1),
      'loop.batch_groups: unknown setting; did you mean "batchGroups"?',
    ],
    ["unknown, nothing near", (job) => (job["loop"].zzzzz = 1), "loop.zzzzz: unknown setting"],
    [
      "text for a number",
      (job) => (job["loop"].steps = "three"),
      'loop.steps: must be a whole number, not the text "three"',
    ],
    ["a fraction", (job) => (job["loop"].steps = 1.5), "loop.steps: must be a whole number, not 1.5"],
    ["a negative count", (job) => (job["loop"].steps = -1), "loop.steps: must be from 0 to 4294967295, not -1"],
    ["a number for text", (job) => (job["name"] = 7), "name: must be text, not 7"],
    ["a list for a mapping", (job) => (job["model"] = ["x"]), "model: must be a mapping of settings, not a list"],
    ["no value", (job) => (job["model"] = null), "model: has no value: give one or remove the setting"],
    [
      "text for true",
      (job) => (job["algorithm"].grpo.normalizeByStd = "yes"),
      'algorithm.grpo.normalizeByStd: must be true or false, not the text "yes"',
    ],
    [
      "a duration without unit",
      (job) => (job["timeout"] = 30),
      'timeout: must be a duration in seconds like "30s" or "0.5s", not 30',
    ],
    ["a struct that is none", (job) => (job["agent"].args = "x"), 'agent.args: must be a mapping, not the text "x"'],
    [
      "a number not finite",
      (job) => (job["sampling"] = { temperature: Infinity }),
      "sampling.temperature: must be a number, not Infinity",
    ],
    [
      "no such enum value",
      (job) => (job["algorithm"].grpo.lossAggregation = "TOKEN_MEEN"),
      'did you mean "TOKEN_MEAN"?',
    ],
    ["two of a oneof", (job) => (job["train"].jsonl = "x"), "train: takes one of jsonl, seeds, not 2 of them"],
    [
      "inside a list",
      (job) => (job["validation"] = { variants: [{ name: "a" }, { nam: "b" }] }),
      'validation.variants[1].nam: unknown setting; did you mean "name"?',
    ],
  ])("refuses %s", (_, change, expected) => {
    const violations = violationsOf(changed(change));
    expect(violations).toHaveLength(1);
    expect(violations[0]).toContain(expected);
  });

  it("names every violation at once", () => {
    const document = changed((job) => {
      job["lop"] = 1;
      job["name"] = 7;
      job["loop"].steps = "x";
    });
    expect(violationsOf(document)).toHaveLength(3);
  });

  it.each([
    ["a list", []],
    ["text", "x"],
    ["nothing", null],
  ])("refuses %s as a whole", (_, document) => {
    expect(violationsOf(document)[0]).toMatch(/^\(root\): must be a mapping/);
  });

  it("takes the enum's full name too", () => {
    const spec = readJobSpec(
      changed((job) => (job["loop"].deadlinePolicy = "DEADLINE_POLICY_MASK")),
      "/",
    );
    expect(spec.loop?.deadlinePolicy).toBe(3);
  });
});
