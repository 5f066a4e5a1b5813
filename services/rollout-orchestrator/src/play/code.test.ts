// SPDX-License-Identifier: Apache-2.0
// Programs in sandboxes, by a scripted policy through the real env-runner.
import { create, type JsonObject } from "@bufbuild/protobuf";
import { RolloutTaskSchema } from "@whetstone/proto/events/v1/events";
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

const block = (program: string): string => `Here it is:\n\`\`\`python\n${program}\n\`\`\``;
const task: JsonObject = {
  question: "Read two numbers, print their sum.",
  tests: {
    kind: "stdin",
    cases: [
      { input: "1 2", output: "3" },
      { input: "5 5", output: "10" },
    ],
  },
};
const RIGHT = block("print(sum(map(int, input().split())))");
const HALF = block("print(3)");

describe.runIf(canHaveSandboxes)("an agent that programs", () => {
  let runner: EnvRunnerProcess;
  beforeAll(async () => {
    runner = await startEnvRunner();
  });
  afterAll(async () => {
    await runner[Symbol.asyncDispose]();
  });

  /** @returns the episode, and what the policy was told in its turns. */
  async function play(answers: readonly string[], name: string, args: JsonObject = {}) {
    const told: string[] = [];
    await using fake = await startFakeGateway(({ body: { messages } }) => {
      told.push(String(messages.at(-1)?.content));
      return { text: answers[messages.filter(({ role }) => role === "assistant").length] ?? "" };
    });
    await using gateway = new Gateway(fake.url, 4);
    await using environments = new RunnerClients();
    const rollout = create(RolloutTaskSchema, {
      episodeId: `job/${name}`,
      job: "job",
      task: { id: "t", payload: task },
      seed: 1n,
      agent: { kind: "code" },
      environment: { kind: "code", args },
      limits: { retryLimit: 0 },
    });
    const actors = createRegistry<RegisteredActor>("agent", builtInActors());
    const deps = { actors, environments, gateway, externals: new ExternalModels({}) };
    const delivery = { task: rollout, attempt: 1, waitingMs: 0, runners: fixedRunner(runner.address) };
    const episode = await playTask(deps, delivery, new AbortController().signal);
    return { reward: episode.reward, failure: episode.failure?.message, told };
  }

  it("is paid for a program that passes all its tests, or for the share", async () => {
    expect(await play([RIGHT], "g0/s0")).toMatchObject({ reward: 1, failure: "" });
    expect(await play([HALF], "g0/s1")).toMatchObject({ reward: 0, failure: "" });
    expect(await play([HALF], "g0/s2", { reward: "share" })).toMatchObject({ reward: 0.5 });
    expect(await play(["print(3)"], "g0/s3")).toMatchObject({ reward: 0, failure: "" });
  });

  it("is told what its tests said, and no more than it may see", async () => {
    const args = { maxTurns: 3, shownCases: 1 };
    const { reward, told } = await play(["none", HALF, RIGHT], "g1/s0", args);
    expect(reward).toBe(1);
    expect(told[1]).toContain("no program");
    expect(told[2]).toBe("1 of 2 tests passed. Test 2: wrong answer.");
    const shown = await play([block("print(4)"), RIGHT], "g1/s1", args);
    expect(shown.told[1]).toBe(
      "0 of 2 tests passed. Test 1: wrong answer.\nInput:\n1 2\nExpected:\n3\nYour program gave:\n4\n",
    );
  });
});
