// SPDX-License-Identifier: Apache-2.0
// Tasks as SWE-bench and R2E-Gym publish them, by scripted policies through the real env-runner.
import { create, type JsonObject } from "@bufbuild/protobuf";
import { RolloutTaskSchema } from "@whetstone/proto/events/v1/events";
import { createRegistry, type RegisteredActor } from "@whetstone/sdk";
import {
  makeStates,
  PYTEST_ENVIRONMENT,
  R2E_GYM_ROW,
  removeStates,
  REPAIR,
  SWE_BENCH_ROW,
} from "@whetstone/swe/test-support/repository";
import { canHaveSandboxes } from "@whetstone/testkit";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { type EnvRunnerProcess, startEnvRunner } from "../../test-support/env-runner-process.ts";
import { startFakeGateway } from "../../test-support/fake-gateway.ts";
import { builtInActors } from "../agents/built-in.ts";
import { RunnerClients } from "../environments/runner-clients.ts";
import { fixedRunner } from "../environments/runners.ts";
import { ExternalModels } from "./external-models.ts";
import { Gateway } from "./gateway.ts";
import { playTask } from "./play-task.ts";

const call = (cmd: string): string => `<function=execute_bash>\n<parameter=cmd>\n${cmd}\n</parameter>\n</function>`;

describe.runIf(canHaveSandboxes)("a task in the format of others", { timeout: 240_000 }, () => {
  const states = makeStates();
  let runner: EnvRunnerProcess;
  beforeAll(async () => {
    runner = await startEnvRunner();
  });
  afterAll(async () => {
    await runner[Symbol.asyncDispose]();
    removeStates(states);
  });

  async function play(kind: string, payload: JsonObject, command: string) {
    const answers = [call(command), "<function=finish><parameter=command>submit</parameter></function>"];
    await using fake = await startFakeGateway(({ body: { messages } }) => ({
      text: answers[messages.filter(({ role }) => role === "assistant").length] ?? "",
    }));
    await using gateway = new Gateway(fake.url, 4);
    await using environments = new RunnerClients();
    const settings = { states, repository: "/workspace/testbed", environment: PYTEST_ENVIRONMENT, toolset: "r2e-gym" };
    const task = create(RolloutTaskSchema, {
      episodeId: "job/g0/s0",
      job: "job",
      task: { id: "1", payload: structuredClone(payload) },
      seed: 1n,
      agent: { kind: "swe", args: { grammar: "function" } },
      environment: { kind, args: { ...settings, maxSteps: 4 } },
      limits: { retryLimit: 0, maxPromptTokens: 100_000, maxResponseTokens: 100_000 }, // A token is a character here.
    });
    const actors = createRegistry<RegisteredActor>("agent", builtInActors());
    const deps = { actors, environments, gateway, externals: new ExternalModels({}) };
    const delivery = { task, attempt: 1, waitingMs: 0, runners: fixedRunner(runner.address) };
    return await playTask(deps, delivery, new AbortController().signal);
  }

  it.each([
    ["swe-bench", SWE_BENCH_ROW],
    ["r2e-gym", R2E_GYM_ROW],
  ])("%s pays a repair, and nothing else", async (kind, row) => {
    const repaired = await play(kind, row, REPAIR);
    expect({ message: repaired.failure?.message, reward: repaired.reward }).toEqual({ message: "", reward: 1 });
    const info = repaired.trajectories[0]?.steps.at(-1)?.info;
    expect(info).toMatchObject({ resolved: true, success: true, sandboxLevel: expect.stringMatching(/^[ABC]$/u) });
    expect((await play(kind, row, "echo '#' >>tally/core.py")).reward).toBe(0);
  });

  it.each([
    ["swe-bench", { ...SWE_BENCH_ROW, FAIL_TO_PASS: "test_high" }, /FAIL_TO_PASS: must be a list of tests/u],
    ["swe-bench", { ...SWE_BENCH_ROW, FAIL_TO_PASS: "[]" }, /FAIL_TO_PASS/u],
    [
      "swe-bench",
      { ...SWE_BENCH_ROW, log_parser: "parse_log_karma" },
      /log_parser: "parse_log_karma" is not built in/u,
    ],
    ["swe-bench", { ...SWE_BENCH_ROW, eval_script: "pytest" }, /eval_script: has no tests between/u],
    ["swe-bench", { ...SWE_BENCH_ROW, instance_id: "../x" }, /instance_id/u],
    ["swe-bench", { ...SWE_BENCH_ROW, PASS_TO_FAIL: [] }, /PASS_TO_FAIL: unknown/u],
    ["r2e-gym", { ...R2E_GYM_ROW, expected_output_json: '{"test": "fine"}' }, /expected_output_json\.test/u],
    ["r2e-gym", { ...R2E_GYM_ROW, expected_output_json: "{}" }, /expected_output_json: names no test/u],
  ])("%s names the field that is wrong", async (kind, row, message) => {
    const { failure } = await play(kind, row, "ls");
    expect(failure?.message).toMatch(message);
  });
});
