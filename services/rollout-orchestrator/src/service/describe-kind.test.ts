// SPDX-License-Identifier: Apache-2.0
import { AgentForm } from "@whetstone/proto/rollouts/v1/rollouts";
import { defineWorkflow, SimpleWorkflow } from "@whetstone/sdk";
import { expect, it } from "vitest";
import { builtInActors } from "../agents/built-in.ts";
import { describeKind } from "./describe-kind.ts";

it("kinds are described with their form and a schema of their arguments", () => {
  const simple = defineWorkflow({ kind: "simple", create: () => new SimpleWorkflow({ rewardFunction: () => 1 }) });
  const kinds = [...builtInActors(), simple].map(describeKind);
  expect(kinds.map(({ kind, form }) => [kind, AgentForm[form]])).toEqual([
    ["frozenlake", "AGENT"],
    ["math", "AGENT"],
    ["code", "AGENT"],
    ["tool", "AGENT"],
    ["search", "AGENT"],
    ["swe", "AGENT"],
    ["web", "AGENT"],
    ["command", "ROLLOUT"],
    ["coding-cli", "ROLLOUT"],
    ["http", "ROLLOUT"],
    ["simple", "WORKFLOW"],
  ]);
  for (const { argsSchemaJson } of kinds) expect(JSON.parse(argsSchemaJson)).toMatchObject({ type: "object" });
});
