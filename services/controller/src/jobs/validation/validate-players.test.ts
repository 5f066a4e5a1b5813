// SPDX-License-Identifier: Apache-2.0
import { fromJson, type JsonObject } from "@bufbuild/protobuf";
import { JobSpecSchema } from "@whetstone/proto/jobs/v1/jobs";
import { AgentForm } from "@whetstone/proto/rollouts/v1/rollouts";
import { expect, it } from "vitest";
import { checkPlayed } from "./validate-players.ts";

const paths = (roles: JsonObject[], form: AgentForm | undefined, steps = 2): string[] =>
  checkPlayed(fromJson(JobSpecSchema, { roles, loop: { steps } }), form).map(({ path }) => path);
const model = { baseUrl: "http://a", model: "m" };

it.each<[string, JsonObject[], string[]]>([
  ["a role that nobody plays", [{ name: "agent" }, { name: "judge" }], ["roles[1].name"]],
  ["all roles frozen", [{ name: "agent", frozen: true }], ["roles[0].frozen"]],
  ["all roles played by another model", [{ name: "agent", model }], ["roles[0].model"]],
])("an agent and a demonstration: %s is refused", (_name, roles, expected) => {
  expect(paths(roles, AgentForm.AGENT)).toEqual(expected);
  expect(paths(roles, undefined)).toEqual(expected);
});

it("an evaluation trains nothing, whoever plays", () => {
  expect(paths([{ name: "agent", model }], AgentForm.AGENT, 0)).toEqual([]);
});

it("a workflow and a rollout may play any role", () => {
  for (const form of [AgentForm.WORKFLOW, AgentForm.ROLLOUT])
    expect(paths([{ name: "judge", frozen: true }], form)).toEqual([]);
});
