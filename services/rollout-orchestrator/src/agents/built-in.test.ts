// SPDX-License-Identifier: Apache-2.0
import { calculator } from "@whetstone/tools";
import { describe, expect, it } from "vitest";
import { mathAgent } from "./question.ts";
import { toolAgent } from "./tool.ts";

describe("built-in agents", () => {
  it("math asks with its instruction", () => {
    const agent = mathAgent.create({ instruction: "Briefly." });
    agent.reset();
    agent.updateFromEnv({ question: "2+2?" }, 0, false, {});
    expect(agent.chatCompletions).toEqual([{ role: "user", content: "2+2? Briefly." }]);
  });

  it("tool describes what the environment offers, unless it is not to", () => {
    for (const describeTools of [true, false]) {
      const agent = toolAgent.create({ systemPrompt: "", describeTools });
      agent.reset();
      agent.updateFromEnv({ question: "2+2?" }, 0, false, { tools: [calculator.spec] });
      expect(agent.chatCompletions.map(({ role }) => role)).toEqual(describeTools ? ["system", "user"] : ["user"]);
    }
  });

  it.each([mathAgent, toolAgent])("$kind refuses unknown arguments", (agent) => {
    expect(() => agent.create({ sytemPrompt: "" })).toThrow(/args\.sytemPrompt: unknown/);
  });
});
