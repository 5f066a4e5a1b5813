// SPDX-License-Identifier: Apache-2.0
// Environments in other languages: whatever comes over the wire is checked here as values of our own hosts are.
import { create, type MessageInitShape } from "@bufbuild/protobuf";
import { EnvironmentService, type ObservationSchema } from "@whetstone/proto/environments/v1/environments";
import { RolloutTaskSchema } from "@whetstone/proto/events/v1/events";
import { FailureClass } from "@whetstone/proto/types/v1/types";
import { implement, startServer } from "@whetstone/rpc";
import { createRegistry, type RegisteredActor } from "@whetstone/sdk";
import { silentLogger } from "@whetstone/telemetry";
import { describe, expect, it } from "vitest";
import { startFakeGateway } from "../../test-support/fake-gateway.ts";
import { builtInActors } from "../agents/built-in.ts";
import { fixedRunner } from "./runners.ts";
import { playTask } from "../play/play-task.ts";
import { ExternalModels } from "../play/external-models.ts";
import { Gateway } from "../play/gateway.ts";
import { RunnerClients } from "./runner-clients.ts";

type Observation = MessageInitShape<typeof ObservationSchema>;

/** An env-runner of somebody else's that answers each step with the same observation. */
function foreignRunner(stepped: Observation) {
  const service = implement(EnvironmentService, {
    async *session(requests) {
      for await (const { kind } of requests) {
        if (kind.case === "close") return;
        yield { kind: { case: "observation", value: kind.case === "reset" ? { text: "o" } : stepped } };
      }
    },
  });
  return startServer({ host: "127.0.0.1", port: 0, services: [service], logger: silentLogger });
}

async function play(stepped: Observation) {
  await using runner = await foreignRunner(stepped);
  await using fake = await startFakeGateway(() => ({ text: "R" }));
  await using gateway = new Gateway(fake.url, 4);
  await using environments = new RunnerClients();
  const task = create(RolloutTaskSchema, {
    episodeId: "job/g0/s0",
    job: "job",
    task: { id: "t", payload: {} },
    seed: 1n,
    agent: { kind: "frozenlake", args: { variant: "compact" } },
    environment: { kind: "lake" },
    limits: { retryLimit: 0 },
  });
  const actors = createRegistry<RegisteredActor>("agent", builtInActors());
  const deps = { actors, environments, gateway, externals: new ExternalModels({}) };
  const delivery = { task, attempt: 1, waitingMs: 0, runners: fixedRunner(runner.address) };
  const { failure } = await playTask(deps, delivery, new AbortController().signal);
  return failure;
}

describe("an environment in another language", () => {
  const cases: [name: string, stepped: Observation, message: RegExp][] = [
    ["a reward NaN", { text: "o", reward: Number.NaN, terminated: true }, /step\(\) returned reward NaN/],
    ["a reward Infinity", { text: "o", reward: Infinity, terminated: true }, /step\(\) returned reward Infinity/],
    ["no reward at its end", { text: "o", terminated: true }, /ended the episode without a reward/],
    ["an info of NaN", { text: "o", reward: 1, terminated: true, info: { n: Number.NaN } }, /info\.n NaN/],
    [
      "an observation of NaN",
      { data: { kind: { case: "numberValue", value: Number.NaN } }, reward: 1 },
      /step\(\) returned an observation that is no JSON value/,
    ],
  ];
  it.each(cases)("that gives %s fails its episode as ENVIRONMENT", async (_name, stepped, message) => {
    const failure = await play(stepped);
    expect(failure?.failureClass).toBe(FailureClass.ENVIRONMENT);
    expect(failure?.message).toMatch(message);
  });
});
