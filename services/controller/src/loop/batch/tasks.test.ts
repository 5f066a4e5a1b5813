// SPDX-License-Identifier: Apache-2.0
import { create } from "@bufbuild/protobuf";
import { JobSpecSchema } from "@whetstone/proto/jobs/v1/jobs";
import { TaskSchema } from "@whetstone/proto/types/v1/types";
import { expect, it } from "vitest";
import { compileJob } from "../../jobs/compiled-job.ts";
import { trainTask, validationTask } from "./tasks.ts";

it("a task carries the job's roles, in training and validation", () => {
  const roles = [{ name: "judge", frozen: true }, { name: "solver" }];
  const spec = create(JobSpecSchema, { name: "j", roles, validation: {} });
  const job = compileJob(spec);
  const [variant] = job.validation?.variants ?? [];
  if (!variant) throw new Error("no variant");
  const task = create(TaskSchema, { id: "t" });
  const made = [
    trainTask(spec, job, { group: 1, sample: 0, task }),
    validationTask(spec, job, { step: 0, variant, index: 0, attempt: 0, task }),
  ];
  for (const one of made)
    expect(one.roles.map(({ name, frozen }) => [name, frozen])).toEqual([
      ["judge", true],
      ["solver", false],
    ]);
});
