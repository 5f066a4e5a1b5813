// SPDX-License-Identifier: Apache-2.0
import { clone } from "@bufbuild/protobuf";
import { RolloutService } from "@whetstone/proto/rollouts/v1/rollouts";
import { type Episode, EpisodeSchema, Purpose } from "@whetstone/proto/types/v1/types";
import { createClient, type RpcClient } from "@whetstone/rpc";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { OrchestratorSetup, type TaskFields, taskOf } from "../test-support/orchestrator-setup.ts";

let setup: OrchestratorSetup;
let rollouts: RpcClient<typeof RolloutService>;

beforeAll(async () => {
  setup = await OrchestratorSetup.open();
});
afterAll(() => setup[Symbol.asyncDispose]());
beforeEach(async () => {
  await setup.beforeEach();
  rollouts = createClient(RolloutService, (await setup.start()).address);
});
afterEach(async () => {
  await rollouts[Symbol.asyncDispose]();
  await setup.afterEach();
});

const MOVES = ["R", "D", "?", "L", "D"];

async function record(fields: TaskFields = {}): Promise<Episode> {
  const moves = MOVES.values();
  setup.script = () => ({ text: moves.next().value ?? "R" });
  const job = await setup.newJob();
  await setup.send(job, 0, fields);
  return (await setup.sealed(job, 0)).episode;
}

function replay(recorded: Episode, fields: TaskFields = {}) {
  return rollouts.replay({ task: taskOf(recorded.job, 0, fields), recorded });
}

describe("a sealed episode", () => {
  it("is played again without a model, and everything is the same", async () => {
    const recorded = await record();
    const asked = setup.gateway.seen.length;
    const { replayed, differences } = await replay(recorded);
    expect(differences).toEqual([]);
    expect(replayed?.trajectories).toEqual(recorded.trajectories);
    expect(replayed?.calls).toEqual(recorded.calls);
    expect(setup.gateway.seen).toHaveLength(asked);
  });

  it("differs where the record was changed", async () => {
    const recorded = await record();
    const changed = clone(EpisodeSchema, recorded);
    Object.assign(changed.trajectories[0]?.steps[1] ?? {}, { observation: "elsewhere", reward: 3 });
    const { differences } = await replay(changed);
    expect(differences).toMatchObject([
      { role: "agent", trajectory: 0, step: 1, field: "observation", recorded: "elsewhere" },
      { role: "agent", trajectory: 0, step: 1, field: "reward", recorded: "3", replayed: "0" },
    ]);
  });

  it("differs when the environment is another", async () => {
    const recorded = await record();
    const environment = { kind: "frozenlake", args: { size: 5, observation: "compact", maxSteps: 8 } };
    const { differences } = await replay(recorded, { environment });
    expect(differences[0]).toMatchObject({ step: 0, field: "observation" });
  });

  it("of a job's own code is replayed in that code's process", async () => {
    const module = await setup.keepModule(`
      import { BaseAgent, createStep, createTrajectory, defineAgent } from "@whetstone/sdk";
      class Own extends BaseAgent {
        reset() { this.book = createTrajectory(); }
        get trajectory() { return this.book; }
        get chatCompletions() { return [{ role: "user", content: String(this.seen) }]; }
        updateFromEnv(observation) { this.seen = observation; }
        updateFromModel(response) {
          this.book.steps.push(createStep({ observation: this.seen, modelResponse: response, action: response }));
          return { action: response };
        }
      }
      export const own = defineAgent({ kind: "own", create: () => new Own() });
    `);
    const fields = { module, agent: { kind: "own" } };
    const recorded = await record(fields);
    expect((await replay(recorded, fields)).differences).toEqual([]);
  });

  it("that nobody played is refused", async () => {
    const recorded = await record();
    recorded.purpose = Purpose.DEMONSTRATION;
    await expect(replay(recorded)).rejects.toMatchObject({ code: "FAILED_PRECONDITION" });
  });

  it("of a rollout, which asks the model by itself, is refused", async () => {
    const recorded = await record();
    const fields = { agent: { kind: "command", args: { command: ["true"] } } };
    await expect(replay(recorded, fields)).rejects.toThrow(/calls the model by itself/);
  });
});
