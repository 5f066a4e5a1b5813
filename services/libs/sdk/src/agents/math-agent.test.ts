// SPDX-License-Identifier: Apache-2.0
import { describe, expect, it } from "vitest";
import { MathAgent } from "./math-agent.ts";
import { splitThinking } from "./thinking.ts";

describe("thinking", () => {
  it.each([
    ["answer", "", "answer"],
    ["<think>hm</think> answer", "hm", "answer"],
    ["hm</think>answer", "hm", "answer"],
    ["<think>hm", "hm", ""],
    ["so <think>hm", "hm", "so"],
    ["<think>a</think>b<think>c</think>d", "a</think>b<think>c", "d"],
    ["<think></think>", "", ""],
  ])("%j", (text, thought, answer) => {
    expect(splitThinking(text)).toEqual({ thought, answer });
  });
});

describe("MathAgent", () => {
  const play = (agent: MathAgent) => {
    agent.reset();
    agent.updateFromEnv({ question: "2+2?" }, 0, false);
    const first = agent.updateFromModel("<think>hm</think>\\boxed{5}", {});
    agent.updateFromEnv({ feedback: "Please review it." }, 0, false);
    return first;
  };

  it("asks with the instruction, then passes the feedback on", () => {
    const agent = new MathAgent({ systemPrompt: "You count." });
    expect(play(agent)).toEqual({ action: "\\boxed{5}" });
    expect(agent.chatCompletions).toEqual([
      { role: "system", content: "You count." },
      { role: "user", content: expect.stringMatching(/^2\+2\? Let's think step by step .*\\boxed\{\}\.$/) as string },
      { role: "assistant", content: "<think>hm</think>\\boxed{5}" },
      { role: "user", content: "Please review it." },
    ]);
    expect(agent.getCurrentState()).toMatchObject({ thought: "hm", action: "\\boxed{5}" });
  });

  it("without accumulation earlier thinking is not shown again", () => {
    const agent = new MathAgent({ accumulateThinking: false, instruction: "" });
    play(agent);
    expect(agent.chatCompletions.map(({ content }) => content)).toEqual(["2+2?", "\\boxed{5}", "Please review it."]);
    expect(agent.getCurrentState()?.chatCompletions[1]?.content).toContain("<think>");
  });

  it("is fresh after a reset, and says nothing after the end", () => {
    const agent = new MathAgent();
    play(agent);
    agent.updateFromEnv({}, 1, true);
    expect(agent.chatCompletions).toHaveLength(3);
    agent.reset();
    expect([agent.chatCompletions, agent.trajectory.steps]).toEqual([[], []]);
  });
});
