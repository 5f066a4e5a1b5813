// SPDX-License-Identifier: Apache-2.0
import { describe, expect, it } from "vitest";
import { ToolAgent, type ToolAgentOptions, TOOL_SYSTEM_PROMPT } from "./tool-agent.ts";
import { mathReward } from "@whetstone/graders";
import { calculator } from "./calculator.ts";
import { defineTool, OutputWithImages, type Tool } from "./tool.ts";
import { AgentExecutionEngine } from "@whetstone/sdk";
import { ScriptedClient } from "../../sdk/test-support/stand-ins.ts";
import { ToolEnvironment, type ToolOutputs } from "./tool-environment.ts";

const task = { question: "12+7?", answer: 19 };
const rewardFunction = mathReward({ extraction: "whole" });
const options = { task, tools: [calculator], rewardFunction };
const call = (expression: string, id = "c0") => ({
  id,
  name: "calculator",
  argumentsJson: JSON.stringify({ expression }),
});

async function opened(more: Partial<ConstructorParameters<typeof ToolEnvironment>[0]> = {}): Promise<ToolEnvironment> {
  const environment = new ToolEnvironment({ ...options, ...more });
  await environment.reset();
  return environment;
}

describe("ToolEnvironment", () => {
  it("offers its tools, runs calls, and grades the final answer", async () => {
    const environment = new ToolEnvironment(options);
    expect(await environment.reset()).toEqual({
      observation: { question: "12+7?" },
      info: { tools: [calculator.spec], turns: 10 },
    });
    const result = await environment.step([call("12+7"), call("1/0", "c1")]);
    expect(result).toMatchObject({ reward: 0, terminated: false, info: { toolCalls: 2, toolErrors: 1 } });
    expect(result.observation).toEqual({
      toolOutputs: [
        { toolCallId: "c0", name: "calculator", output: "19", isError: false },
        { toolCallId: "c1", name: "calculator", output: "Error: expression: division by zero.", isError: true },
      ],
    });
    expect(await environment.step("19")).toMatchObject({
      reward: 1,
      terminated: true,
      info: { success: true, toolCalls: 2 },
    });
    await expect(environment.step("19")).rejects.toThrow(/none follows the end/);
  });

  it.each([
    ['{"response":"19"}', 1],
    ['{"response":19}', 1],
    ['"19"', 1],
    ["19", 1],
    ['{"response":"18"}', 0],
    ["{}", 0],
    ["not JSON", 0],
  ])("finish with %s pays %d (rLLM broke on arguments that are text)", async (argumentsJson, reward) => {
    const environment = await opened();
    expect(await environment.step([call("1"), { id: "f", name: "finish", argumentsJson }])).toMatchObject({
      reward,
      terminated: true,
    });
  });

  it.each([[""], [undefined], [null], [[]], [7], [[3]], [{ a: 1 }]])("%j is an empty answer", async (action) => {
    const environment = await opened();
    expect(await environment.step(action)).toMatchObject({ reward: 0, terminated: true, info: { answer: null } });
  });

  it("is truncated when the turns are used up without an answer", async () => {
    const environment = await opened({ maxSteps: 2 });
    expect(await environment.step([call("1")])).toMatchObject({ truncated: false });
    expect(await environment.step([call("1")])).toMatchObject({
      truncated: true,
      terminated: false,
      reward: 0,
      info: { toolCalls: 2 },
    });
  });

  it("opens its tools at reset; a tool that breaks fails the episode", async () => {
    const broken = defineTool({
      name: "broken",
      description: "",
      parameters: { type: "object" },
      run: () => Promise.reject(new Error("down")),
    });
    const environment = await opened({ tools: async () => [broken] });
    await expect(environment.step([{ id: "a", name: "broken", argumentsJson: "{}" }])).rejects.toMatchObject({
      failureClass: "ENVIRONMENT",
    });
  });
});

describe("a ToolAgent in it", () => {
  const asked = '<tool_call>{"name":"calculator","arguments":{"expression":"12+7"}}</tool_call>';

  async function play(answers: readonly string[], agentOptions: ToolAgentOptions = {}, tools: Tool[] = []) {
    const client = new ScriptedClient((n) => ({ text: answers[n] ?? "" }));
    const engine = new AgentExecutionEngine({
      rolloutClient: client,
      agentFactory: () => new ToolAgent(agentOptions),
      environmentFactory: () => new ToolEnvironment({ ...options, tools: [...options.tools, ...tools] }),
    });
    const episode = await engine.runEpisode({ id: "e", task: { id: "t", payload: {} }, seed: 1 });
    const prompts = client.asked.map(({ messages }) => messages);
    return { episode, prompts, offered: client.asked.map((asked) => asked.options.tools ?? []) };
  }

  it("calls, reads and answers", async () => {
    const { episode, prompts } = await play([`<think>add</think>I add. ${asked}`, "19"]);
    expect(episode).toMatchObject({ reward: 1, isCorrect: true, terminationReason: "ENV_DONE" });
    expect(prompts[0]?.map(({ role }) => role)).toEqual(["system", "user"]);
    expect(prompts[0]?.[0]?.content).toContain(`${TOOL_SYSTEM_PROMPT}\n\n# Tools`);
    expect(prompts[0]?.[0]?.content).toContain('"name":"calculator"');
    expect(prompts[1]?.slice(2)).toEqual([
      { role: "assistant", content: `<think>add</think>I add. ${asked}` },
      { role: "tool", content: "19", toolCallId: "call_0_0" },
    ]);
    expect(episode.trajectories[0]?.steps[0]).toMatchObject({ thought: "add", action: [{ name: "calculator" }] });
  });

  it("gets its mistakes back to read, and may do better", async () => {
    const { episode, prompts } = await play(["<tool_call>{oops</tool_call>", "19"]);
    expect(prompts[1]?.at(-1)).toMatchObject({
      role: "tool",
      content: expect.stringMatching(/^Error: the tool call could not be read: not valid JSON/) as string,
    });
    expect(episode).toMatchObject({ reward: 1, failure: { class: "NONE" } });
  });

  it("without description and prompt there is no system message", async () => {
    const { prompts } = await play(["19"], { systemPrompt: "", describeTools: false });
    expect(prompts[0]).toEqual([{ role: "user", content: "12+7?" }]);
  });

  it("leaves description and parsing to the server when told to", async () => {
    const { prompts, offered } = await play(["19"], { systemPrompt: "", describeTools: "server" });
    expect(prompts[0]).toEqual([{ role: "user", content: "12+7?" }]);
    expect(offered[0]).toEqual([calculator.spec]);
    expect((await play(["19"])).offered[0]).toEqual([]);
  });

  it("shows pictures of outputs in a message after them, where it is told to", async () => {
    const camera = cameraOf(1);
    const look = `<tool_call>{"name": "look", "arguments": {}}</tool_call>`;
    const { prompts, episode } = await play([look, "19"], { images: true }, [camera]);
    expect(prompts[1]?.slice(-2)).toMatchObject([
      { role: "tool", content: "a yard" },
      { role: "user", images: [{ mediaType: "image/png", digest: expect.any(String) as string }] },
    ]);
    expect(episode.trajectories[0]?.steps[1]?.images).toHaveLength(1);
    expect((await play([look, "19"], {}, [camera])).prompts[1]?.at(-1)).toMatchObject({ role: "tool" });
  });
});

/** A tool with so many pictures an answer. */
function cameraOf(pictures: number) {
  const data = Buffer.from("\u0089PNG\r\n\u001a\n", "latin1");
  const images = Array.from({ length: pictures }, () => ({ mediaType: "image/png" as const, data }));
  return defineTool({
    name: "look",
    description: "Looks.",
    parameters: { type: "object" },
    run: () => new OutputWithImages("a yard", images),
  });
}

describe("pictures of outputs", () => {
  it("are no more than an observation holds, and the model is told", async () => {
    const environment = await opened({ tools: [cameraOf(9)] });
    const looks = ["a", "b"].map((id) => ({ id, name: "look", argumentsJson: "{}" }));
    const { observation, images } = await environment.step(looks);
    expect(images).toHaveLength(9);
    const { toolOutputs } = observation as ToolOutputs;
    expect(toolOutputs.map(({ output }) => output)).toEqual(["a yard", expect.stringMatching(/left out: 16 at most/u)]);
    expect(JSON.stringify(observation)).not.toContain("mediaType");
  });
});
