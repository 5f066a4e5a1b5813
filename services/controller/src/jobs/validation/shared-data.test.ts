// SPDX-License-Identifier: Apache-2.0
import { fromJson } from "@bufbuild/protobuf";
import { JobSpecSchema } from "@whetstone/proto/jobs/v1/jobs";
import { expect, it } from "vitest";
import { checkOwnData } from "./shared-data.ts";

const pathsOf = (spec: object): string[] =>
  checkOwnData(fromJson(JobSpecSchema, spec as never)).map(({ path }) => path);

const MODEL = { path: "artifact://models/m" };
const STORED = { transport: { objectStore: {} } };

it("takes a job of pushed models whose weights go through the store", () => {
  const critic = { model: "artifact://models/c" };
  expect(
    pathsOf({ model: MODEL, weights: STORED, loop: { steps: 1 }, algorithm: { policyGradient: { critic, kl: {} } } }),
  ).toEqual([]);
});

it.each<[object, string[]]>([
  [{ model: { path: "/data/models/m" }, weights: STORED, loop: { steps: 1 } }, ["model.path"]],
  [
    {
      model: MODEL,
      weights: STORED,
      loop: { steps: 1 },
      algorithm: { policyGradient: { kl: { model: "/m" }, critic: { model: "/c" } } },
    },
    ["algorithm.policyGradient.kl.model", "algorithm.policyGradient.critic.model"],
  ],
  [
    { model: MODEL, weights: STORED, loop: { steps: 1 }, algorithm: { dpo: { reference: "/r" } } },
    ["algorithm.dpo.reference"],
  ],
  [{ model: MODEL, loop: { steps: 1 } }, ["weights.transport"]],
  [{ model: MODEL, weights: { transport: { stream: {} } }, loop: { steps: 1 } }, ["weights.transport"]],
])("refuses %j by path", (spec, paths) => {
  expect(pathsOf(spec)).toEqual(paths);
});

it("asks no transport of a job that trains nothing", () => {
  expect(pathsOf({ model: MODEL })).toEqual([]);
});
