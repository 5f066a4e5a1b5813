// SPDX-License-Identifier: Apache-2.0
// The single-role examples, played in this process: what the code of 60 lines does with right, wrong and broken answers.
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { AgentExecutionEngine, type ChatMessage, deriveSeed, readModule } from "@whetstone/sdk";
import { describe, expect, it } from "vitest";
import * as math from "../../examples/math/agent.ts";
import * as tool from "../../examples/tool/agent.ts";

async function play(exports: object, seed: number, answers: readonly string[]) {
  const { actors, environments } = readModule(exports as Record<string, unknown>);
  const [actor, environment] = [actors[0], environments[0]];
  if (actor?.form !== "agent" || environment === undefined) throw new Error("the example defines no agent");
  const prompts: (readonly ChatMessage[])[] = [];
  const usage = { promptTokens: 9, completionTokens: 2 };
  const chat = async (messages: readonly ChatMessage[]) => {
    prompts.push([...messages]);
    return { text: answers[prompts.length - 1] ?? "", finishReason: "stop", usage, callId: `c${prompts.length}` };
  };
  const engine = new AgentExecutionEngine({
    rolloutClient: { chat },
    agentFactory: (args) => actor.create(args),
    environmentFactory: (args) => environment.create(args),
  });
  const episode = await engine.runEpisode({ id: "e", task: { id: "t", payload: { seed } }, seed });
  expect(episode.failure.message).toBe("");
  return { episode, prompts };
}

describe("examples/math", () => {
  const right = String((deriveSeed(3, "a") % 5) + (deriveSeed(3, "b") % 5));

  it.each([
    [[right], 1],
    [["99", ` ${right}`], 0.5],
    [["99", "98"], 0],
  ])("%j pays %d", async (answers, reward) => {
    const { episode, prompts } = await play(math, 3, answers);
    expect([episode.reward, episode.isCorrect, prompts.length]).toEqual([reward, reward > 0, answers.length]);
  });

  it("shows the model its answer and the verdict", async () => {
    const { prompts } = await play(math, 3, ["99", right]);
    expect(prompts[1]?.map(({ content }) => content)).toEqual([expect.stringMatching(/^\d\+\d=$/), "99", "No. Again:"]);
  });
});

describe("examples/tool", () => {
  const call = (item: unknown): string =>
    `<tool_call>${JSON.stringify({ name: "price", arguments: { item } })}</tool_call>`;

  it("calls, reads the output, answers", async () => {
    const { episode, prompts } = await play(tool, 0, [call("tea"), "3"]);
    expect(episode.reward).toBe(1);
    expect(prompts[1]?.at(-1)).toEqual({ role: "tool", content: "3", toolCallId: "call_0_0" });
  });

  it("reads what it did wrong", async () => {
    const { episode, prompts } = await play(tool, 0, ["<tool_call>tea", call(7), "3"]);
    const outputs = prompts[2]?.filter(({ role }) => role === "tool").map(({ content }) => content);
    expect(outputs).toEqual([
      expect.stringMatching(/^Error: .*not valid JSON/),
      expect.stringMatching(/^Error: arguments\.item/),
    ]);
    expect(episode.reward).toBe(1);
  });
});

it.each(["browser/orders.ts", "math/agent.ts", "tool/agent.ts"])("%s has at most 60 lines", (name) => {
  const text = readFileSync(join(import.meta.dirname, "../../examples", name), "utf8");
  expect(text.trimEnd().split("\n").length).toBeLessThanOrEqual(60);
});
