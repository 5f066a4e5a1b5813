// SPDX-License-Identifier: Apache-2.0
import { describe, expect, it } from "vitest";
import type { ModelAnswer } from "../rollout-client.ts";
import { frozenLakeAgent } from "./agents.ts";
import { parseFenced, parseLetter } from "./parse-action.ts";

const NO_ANSWER = {} as ModelAnswer;

describe("parsing", () => {
  it.each([
    ["```Up```", "Up"],
    ["thinking …\n```\n down \n```", "Down"],
    ["```Left``` no, ```RIGHT```", "Right"],
    ["```1```", "Left"],
    ["```2```", "Down"],
    ["```3```", "Right"],
    ["```4```", "Up"],
    ["```5```", ""],
    ["Up", ""],
    ["```Up", ""],
    ["```Up Down```", ""],
    ["", ""],
  ])("standard: %j → %j", (answer, action) => {
    expect(parseFenced(answer)).toBe(action);
  });

  it.each([
    ["U", "Up"],
    ["D", "Down"],
    ["L", "Left"],
    [" R\n", "Right"],
    ["u", ""],
    ["UU", ""],
    ["Up", ""],
    ["", ""],
    ["constructor", ""],
  ])("compact: %j → %j", (answer, action) => {
    expect(parseLetter(answer)).toBe(action);
  });
});

describe("agents", () => {
  it("compact shows the board alone, every turn", () => {
    const agent = frozenLakeAgent.create({ variant: "compact" });
    agent.reset();
    for (const board of ["P_G", "_PG"]) {
      agent.updateFromEnv(board, 0, false, {});
      expect(agent.chatCompletions).toEqual([{ role: "user", content: board }]);
      expect(agent.updateFromModel("R", NO_ANSWER)).toEqual({ action: "Right" });
    }
    expect(agent.trajectory.steps.map(({ observation }) => observation)).toEqual(["P_G", "_PG"]);
  });

  it("standard keeps the conversation, and each step its own copy", () => {
    const agent = frozenLakeAgent.create({});
    agent.reset();
    agent.updateFromEnv("first", 0, false, {});
    agent.updateFromModel("```Up```", NO_ANSWER);
    agent.updateFromEnv("second", 0, false, {});
    expect(agent.chatCompletions.map(({ role }) => role)).toEqual(["system", "user", "assistant", "user"]);
    expect(agent.chatCompletions[0]?.content).toContain("_ Frozen | O Hole | G Goal | P Player");
    expect(agent.getCurrentState()?.chatCompletions).toHaveLength(3);
  });

  it("refuses unknown arguments", () => {
    expect(() => frozenLakeAgent.create({ varaint: "compact" })).toThrow(/args.varaint: unknown/);
  });
});
