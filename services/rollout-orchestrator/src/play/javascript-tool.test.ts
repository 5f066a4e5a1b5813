// SPDX-License-Identifier: Apache-2.0
// JavaScript and Python side by side in sandboxes, by a scripted policy through the real env-runner.
import { create } from "@bufbuild/protobuf";
import { RolloutTaskSchema } from "@whetstone/proto/events/v1/events";
import { createRegistry, type RegisteredActor } from "@whetstone/sdk";
import { canHaveSandboxes } from "@whetstone/testkit";
import { expect, it } from "vitest";
import { startEnvRunner } from "../../test-support/env-runner-process.ts";
import { startFakeGateway } from "../../test-support/fake-gateway.ts";
import { builtInActors } from "../agents/built-in.ts";
import { RunnerClients } from "../environments/runner-clients.ts";
import { fixedRunner } from "../environments/runners.ts";
import { ExternalModels } from "./external-models.ts";
import { Gateway } from "./gateway.ts";
import { playTask } from "./play-task.ts";

const call = (name: string, code: string): string =>
  `<tool_call>${JSON.stringify({ name, arguments: { code } })}</tool_call>`;

/** The second call needs the first, the third what JavaScript said. */
function said(turn: number, seen: string): string {
  const calls = [
    call("javascript", "let n = 1n; for (let i = 0n; i < 20n; i += 1n) n = (n * (40n - i)) / (i + 1n)"),
    call("javascript", "await null; String(n % 1000n)"),
    call("python", `int(${seen.trim()}) + 1`),
  ];
  return calls[turn] ?? `\\boxed{${seen.trim()}}`;
}

it.runIf(canHaveSandboxes)("an agent works with JavaScript and Python", async () => {
  await using runner = await startEnvRunner();
  await using fake = await startFakeGateway(({ body: { messages } }) => {
    const turn = messages.filter(({ role }) => role === "assistant").length;
    return { text: said(turn, String(messages.at(-1)?.content)) };
  });
  await using gateway = new Gateway(fake.url, 4);
  await using environments = new RunnerClients();
  const task = create(RolloutTaskSchema, {
    episodeId: "job/g0/s0",
    job: "job",
    task: { id: "t", payload: { question: "One more than the last three digits of 40 over 20?", answer: 821 } },
    seed: 1n,
    agent: { kind: "tool" },
    environment: { kind: "tool", args: { tools: ["javascript", "python"], maxSteps: 6 } },
    limits: { retryLimit: 0, maxPromptTokens: 8192 },
  });
  const actors = createRegistry<RegisteredActor>("agent", builtInActors());
  const deps = { actors, environments, gateway, externals: new ExternalModels({}) };
  const delivery = { task, attempt: 1, waitingMs: 0, runners: fixedRunner(runner.address) };
  const { reward, failure } = await playTask(deps, delivery, new AbortController().signal);
  expect([reward, failure?.message]).toEqual([1, ""]);
});
