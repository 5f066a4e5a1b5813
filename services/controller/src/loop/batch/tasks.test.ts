// SPDX-License-Identifier: Apache-2.0
import { create } from "@bufbuild/protobuf";
import { JobSpecSchema } from "@whetstone/proto/jobs/v1/jobs";
import { AdvantageEstimator, Purpose, SandboxBackend, TaskSchema } from "@whetstone/proto/types/v1/types";
import { describe, expect, it } from "vitest";
import { compileJob } from "../../jobs/compiled-job.ts";
import { trainPlaces, trainTask, validationTask } from "./tasks.ts";

it("a task carries the job's roles, in training and validation", () => {
  const roles = [{ name: "judge", frozen: true }, { name: "solver" }];
  const spec = create(JobSpecSchema, { name: "j", roles, validation: {} });
  const job = compileJob(spec);
  const [variant] = job.validation?.variants ?? [];
  if (!variant) throw new Error("no variant");
  const task = create(TaskSchema, { id: "t" });
  const made = [
    trainTask(spec, job, { group: 1, sample: 0, isBaseline: false, task }),
    validationTask(spec, job, { step: 0, variant, index: 0, attempt: 0, task }),
  ];
  for (const one of made)
    expect(one.roles.map(({ name, frozen }) => [name, frozen])).toEqual([
      ["judge", true],
      ["solver", false],
    ]);
});

it("a task says what the job's module is kept in, and leaves its code where it is", () => {
  const sandbox = { backend: SandboxBackend.NONE, network: ["search.example:443"] };
  const module = { digest: "a".repeat(64), code: new Uint8Array(9), sandbox };
  const spec = create(JobSpecSchema, { name: "j", module });
  const place = { group: 1, sample: 0, isBaseline: false, task: create(TaskSchema, { id: "t" }) };
  const task = trainTask(spec, compileJob(spec), place);
  expect(task.module).toMatchObject({ digest: module.digest, sandbox });
  expect(task.module?.code).toHaveLength(0);
});

describe("a group with a baseline", () => {
  const policyGradient = { groupSize: 2, advantage: AdvantageEstimator.REMAX };
  const spec = create(JobSpecSchema, {
    name: "j",
    algorithm: { kind: { case: "policyGradient", value: policyGradient } },
    loop: { steps: 1, batchGroups: 2 },
    sampling: { temperature: 0.7, maxTokens: 9 },
  });
  const job = compileJob(spec);
  const places = [...trainPlaces(job, { step: 3, samples: [2, 2], baselines: [1, 2], groups: [] })];

  it("has places of its own for it, whose ids are nobody else's", () => {
    expect(places.map(({ id }) => id.slice(2)).join(" ")).toBe("g6/s0 g6/s1 b6/s0 g7/s0 g7/s1 b7/s0 b7/s1");
  });

  it("plays the same task greedily, and says what for", () => {
    const task = create(TaskSchema, { id: "t" });
    const [member, , baseline] = places.map((place) => trainTask(spec, job, { ...place, task }));
    expect(member).toMatchObject({ purpose: Purpose.TRAIN, group: "g6", sampling: { temperature: 0.7, maxTokens: 9 } });
    expect(baseline).toMatchObject({
      purpose: Purpose.BASELINE,
      group: "b6",
      sampling: { temperature: 0, maxTokens: 9 },
    });
    expect(baseline?.task).toEqual(member?.task);
  });

  it.each([
    ["the job's advantage", {}, [], true],
    ["no other advantage", { advantage: AdvantageEstimator.GRPO }, [], false],
    ["that of a role", { advantage: AdvantageEstimator.GRPO }, [{ advantage: AdvantageEstimator.REMAX }], true],
  ])("is there for %s", (_name, own, roles, hasBaselines) => {
    const kind = { case: "policyGradient" as const, value: { ...policyGradient, ...own } };
    expect(compileJob(create(JobSpecSchema, { name: "j", roles, algorithm: { kind } }))).toMatchObject({
      hasBaselines,
    });
  });
});
