// SPDX-License-Identifier: Apache-2.0
// The tools of an MCP server, by a scripted policy through the real env-runner.
import { create } from "@bufbuild/protobuf";
import { RolloutTaskSchema } from "@whetstone/proto/events/v1/events";
import { FailureClass } from "@whetstone/proto/types/v1/types";
import { createRegistry, type RegisteredActor } from "@whetstone/sdk";
import { canHaveSandboxes } from "@whetstone/testkit";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { type EnvRunnerProcess, startEnvRunner } from "../../test-support/env-runner-process.ts";
import { startFakeGateway } from "../../test-support/fake-gateway.ts";
import { builtInActors } from "../agents/built-in.ts";
import { RunnerClients } from "../environments/runner-clients.ts";
import { fixedRunner } from "../environments/runners.ts";
import { playTask } from "./play-task.ts";
import { ExternalModels } from "./external-models.ts";
import { Gateway } from "./gateway.ts";

/** It answers `secret` with what nobody told the model, and ends at any other word. */
const SERVER = `
const reply = (id, result) => console.log(JSON.stringify({ jsonrpc: "2.0", id, result }));
require("node:readline").createInterface({ input: process.stdin }).on("line", (line) => {
  const { id, method, params } = JSON.parse(line);
  if (method === "initialize")
    reply(id, { protocolVersion: params.protocolVersion, capabilities: { tools: {} }, serverInfo: { name: "s", version: "1" } });
  else if (method === "tools/list")
    reply(id, { tools: [{ name: "ask", inputSchema: { type: "object", properties: { word: { type: "string" } } } }] });
  else if (method === "tools/call" && params.arguments.word === "secret") reply(id, { content: [{ type: "text", text: "820" }] });
  else if (method === "tools/call") process.exit(1);
  else if (id !== undefined) console.log(JSON.stringify({ jsonrpc: "2.0", id, error: { code: -32601, message: "no" } }));
});`;
const call = (word: string): string => `<tool_call>${JSON.stringify({ name: "ask", arguments: { word } })}</tool_call>`;

describe.runIf(canHaveSandboxes)("an agent with an MCP server", { timeout: 60_000 }, () => {
  let runner: EnvRunnerProcess;
  beforeAll(async () => {
    runner = await startEnvRunner();
  });
  afterAll(async () => {
    await runner[Symbol.asyncDispose]();
  });

  async function play(word: string) {
    await using fake = await startFakeGateway(({ body: { messages } }) => {
      const last = messages.at(-1);
      return { text: last?.role === "tool" ? `\\boxed{${String(last.content)}}` : call(word) };
    });
    await using gateway = new Gateway(fake.url, 4);
    await using environments = new RunnerClients();
    const task = create(RolloutTaskSchema, {
      episodeId: `job/g0/${word}`,
      job: "job",
      task: { id: "t", payload: { question: "What is the secret?", answer: 820 } },
      seed: 1n,
      agent: { kind: "tool" },
      environment: { kind: "mcp", args: { command: ["node", "server.cjs"], files: { "server.cjs": SERVER } } },
      limits: { retryLimit: 0, maxPromptTokens: 8192 },
    });
    const actors = createRegistry<RegisteredActor>("agent", builtInActors());
    const deps = { actors, environments, gateway, externals: new ExternalModels({}) };
    const delivery = { task, attempt: 1, waitingMs: 0, runners: fixedRunner(runner.address) };
    return await playTask(deps, delivery, new AbortController().signal);
  }

  it("calls its tool, reads the output, and is right", async () => {
    const { reward, failure, trajectories } = await play("secret");
    expect([reward, failure?.message]).toEqual([1, ""]);
    expect(trajectories[0]?.steps.map(({ info }) => info?.["mcpServer"])).toContain("s 1");
  });

  it("is not scored when the server dies", async () => {
    const { failure } = await play("other");
    expect(failure?.failureClass).toBe(FailureClass.ENVIRONMENT);
    expect(failure?.message).toMatch(/MCP server, to call ask: .*exit code 1/u);
  });
});
