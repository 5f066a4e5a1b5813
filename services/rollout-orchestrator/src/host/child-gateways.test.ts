// SPDX-License-Identifier: Apache-2.0
// A job's own code in its sandbox, with two replicas of the gateway: its episodes are at both, each whole at one of them.
import { afterAll, afterEach, beforeAll, beforeEach, expect, it } from "vitest";
import { type FakeGateway, startFakeGateway } from "../../test-support/fake-gateway.ts";
import { OrchestratorSetup } from "../../test-support/orchestrator-setup.ts";

let setup: OrchestratorSetup;
let other: FakeGateway;

/** A rollout that calls the model by a client of its own, and an agent that the engine plays. */
const SOURCE = `
import { BaseAgent, createStep, createTrajectory, defineAgent, defineRollout } from "@whetstone/sdk";
export const own = defineRollout({
  kind: "own",
  run: async ({ task, baseUrl, apiKey, model }) => {
    for (let turn = 0; turn < 2; turn += 1) {
      const answer = await fetch(baseUrl + "/chat/completions", {
        method: "POST",
        headers: { authorization: "Bearer " + apiKey },
        body: JSON.stringify({ model, messages: [{ role: "user", content: task.id + turn }] }),
      });
      if (!answer.ok) throw new Error("the gateway said " + answer.status);
    }
    return 1;
  },
});
class Asker extends BaseAgent {
  reset() { this.book = createTrajectory(); }
  get trajectory() { return this.book; }
  get chatCompletions() { return [{ role: "user", content: "go" }]; }
  updateFromEnv() {}
  updateFromModel(response) {
    this.book.steps.push(createStep({ modelResponse: response, action: response }));
    return { action: response };
  }
}
export const asker = defineAgent({ kind: "asker", description: "Asks.", create: () => new Asker() });
`;

beforeAll(async () => {
  setup = await OrchestratorSetup.open();
});
afterAll(() => setup[Symbol.asyncDispose]());
beforeEach(async () => {
  await setup.beforeEach();
  other = await startFakeGateway(() => ({ text: "R" }));
});
afterEach(async () => {
  await setup.afterEach();
  await other[Symbol.asyncDispose]();
});

it.each(["own", "asker"])(
  "are played at both replicas, each at one of them: %s",
  async (kind) => {
    await setup.start({ gatewayUrl: [setup.gateway.url, other.url], ackWaitMs: 15_000 });
    const job = await setup.newJob();
    const module = await setup.keepModule(SOURCE);
    const samples = [0, 1, 2, 3];
    const fields = kind === "own" ? { module, agent: { kind }, environment: undefined } : { module, agent: { kind } };
    for (const sample of samples) await setup.send(job, sample, fields);
    const sealed = await Promise.all(samples.map((sample) => setup.sealed(job, sample, 60_000)));
    for (const { episode } of sealed) expect([episode.failure?.message, episode.calls.length > 0]).toEqual(["", true]);
    const [here, there] = [setup.gateway, other].map(({ seen }) => new Set(seen.map(({ session }) => session)));
    expect([here?.size, there?.size]).toEqual([2, 2]);
    expect(here?.isDisjointFrom(there ?? new Set())).toBe(true);
  },
  90_000,
);
