// SPDX-License-Identifier: Apache-2.0
// Several jobs in one orchestrator, and how many of their episodes play.
import { JobPhase } from "@whetstone/proto/jobs/v1/jobs";
import { FailureClass } from "@whetstone/proto/types/v1/types";
import { waitFor } from "@whetstone/testkit";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { startEnvRunner } from "../test-support/env-runner-process.ts";
import { OrchestratorSetup } from "../test-support/orchestrator-setup.ts";

let setup: OrchestratorSetup;

beforeAll(async () => {
  setup = await OrchestratorSetup.open();
});
afterAll(() => setup[Symbol.asyncDispose]());
beforeEach(() => setup.beforeEach());
afterEach(() => setup.afterEach());

const SLOTS = 16;

/** Calls of each job among those seen so far. */
function callsBy(job: string): number {
  return setup.gateway.seen.filter(({ body }) => body.model === job).length;
}

async function sendMany(job: string, count: number): Promise<void> {
  for (let sample = 0; sample < count; sample += 1) await setup.send(job, sample);
}

async function allSealed(job: string, count: number): Promise<boolean> {
  for (let sample = 0; sample < count; sample += 1) if (!(await setup.find(job, sample))) return false;
  return true;
}

describe("two jobs", () => {
  it("share the slots by weight while both want them, and the rest is the other's", async () => {
    const small = await setup.newJob();
    const large = await setup.newJob({}, { weight: 3 });
    setup.script = () => ({ text: "?", delayMs: 20 }); // Five turns each: episodes take about as long.
    for (const job of [small, large]) {
      await setup.setPhase(job, JobPhase.QUEUED);
      await sendMany(job, 200);
    }
    const app = await setup.start({ maxEpisodes: SLOTS });
    for (const job of [small, large]) await setup.setPhase(job, JobPhase.RUNNING);
    await waitFor(() => callsBy(small) > 0 && callsBy(large) > 0);
    const from = { small: callsBy(small), large: callsBy(large) };
    let peak = 0;
    await waitFor(
      () => {
        peak = Math.max(peak, app.inFlight);
        return callsBy(large) >= 800;
      },
      { timeoutMs: 20_000 },
    );
    const share = (callsBy(small) - from.small) / (callsBy(small) + callsBy(large) - from.small - from.large);
    expect(share).toBeGreaterThan(0.25 - 0.05);
    expect(share).toBeLessThan(0.25 + 0.05);
    expect(peak).toBe(SLOTS);
    // The large one ends first; from then on the small one has all slots.
    await waitFor(async () => (await setup.tasksLeft(large)) === 0, { timeoutMs: 20_000 });
    expect(await allSealed(small, 200)).toBe(false);
    await waitFor(() => app.inFlight === SLOTS);
    await waitFor(() => allSealed(small, 200), { timeoutMs: 20_000 });
  });

  it("a job that comes later is not kept waiting by one that has everything", async () => {
    const first = await setup.newJob();
    setup.script = () => ({ text: "?", delayMs: 10 });
    await sendMany(first, 200);
    await setup.start({ maxEpisodes: 8 });
    await waitFor(() => callsBy(first) > 40);
    const second = await setup.newJob();
    await sendMany(second, 4);
    for (const sample of [0, 1, 2, 3]) await setup.sealed(second, sample);
    expect(await setup.tasksLeft(first)).toBeGreaterThan(60);
  });

  it("take few tasks ahead: what cannot be played yet stays in the stream", async () => {
    const job = await setup.newJob();
    setup.script = () => ({ text: "", delayMs: Number.POSITIVE_INFINITY });
    await sendMany(job, 60);
    const app = await setup.start({ maxEpisodes: 4 });
    await waitFor(() => app.inFlight === 4);
    await new Promise((resolve) => setTimeout(resolve, 300));
    expect(await setup.tasksTaken(job)).toBe(4 + 16);
  });
});

describe("back pressure", () => {
  it("plays as many episodes as the environment has slots, and loses none", async () => {
    await using runner = await startEnvRunner({ env: { WHETSTONE_SLOTS: "3" } });
    const app = await setup.start({ envAddress: runner.address, maxEpisodes: 32, loadIntervalMs: 50 });
    const job = await setup.newJob({}, { environment: { kind: "frozenlake" } });
    await waitFor(() => app.slots.reason === "environment_slots");
    let peak = 0;
    setup.script = () => {
      peak = Math.max(peak, app.inFlight);
      return { text: "?", delayMs: 5 };
    };
    await sendMany(job, 30);
    for (let sample = 0; sample < 30; sample += 1)
      expect((await setup.sealed(job, sample)).summary).toMatchObject({ failureClass: FailureClass.NONE, attempt: 1 });
    expect(peak).toBe(3);
  });

  it("ends no episode that waits longer for room than its own time, and plays it as if it had not waited", async () => {
    await using runner = await startEnvRunner({ env: { WHETSTONE_SLOTS: "1" } });
    await setup.start({ envAddress: runner.address, maxEpisodes: 32, loadIntervalMs: 0 });
    const job = await setup.newJob({}, { environment: { kind: "frozenlake" } });
    setup.script = () => ({ text: "?", delayMs: 60 });
    // Many times what one takes to play, and less than what all of them take, one after the other.
    const limits = { episodeTimeout: { seconds: 5n, nanos: 0 }, retryLimit: 0 };
    for (let sample = 0; sample < 24; sample += 1) await setup.send(job, sample, { limits });
    for (let sample = 0; sample < 24; sample += 1)
      expect((await setup.sealed(job, sample, 30_000)).summary).toMatchObject({
        ...{ failureClass: FailureClass.NONE, attempt: 1 },
      });
  }, 60_000);

  it("seals an episode that found no room for too long, and says so", async () => {
    await using runner = await startEnvRunner({ env: { WHETSTONE_SLOTS: "1" } });
    await setup.start({ envAddress: runner.address, loadIntervalMs: 0, roomTimeoutMs: 1_000 });
    const job = await setup.newJob({}, { environment: { kind: "frozenlake" } });
    setup.script = () => ({ text: "", delayMs: Number.POSITIVE_INFINITY });
    await setup.send(job, 0);
    await waitFor(() => setup.gateway.seen.length > 0);
    await setup.send(job, 1);
    const { failure } = (await setup.sealed(job, 1, 30_000)).episode;
    expect(failure).toMatchObject({
      ...{ failureClass: FailureClass.INFRASTRUCTURE, phase: "reset", code: "RESOURCE_EXHAUSTED" },
      message: expect.stringMatching(/no env-runner had room for it in \d+ s/u) as string,
    });
    expect(await setup.find(job, 0)).toBeUndefined();
  }, 60_000);

  it("follows the engines' queue down and up again", async () => {
    setup.gateway.load = { serving: 1, running: 8, waiting: 500, kv_use: 0.2 };
    const app = await setup.start({ maxEpisodes: 64, minEpisodes: 4, loadIntervalMs: 20 });
    await waitFor(() => app.slots.open === 4);
    expect(app.slots.reason).toBe("engine_queue");
    const job = await setup.newJob();
    setup.script = () => ({ text: "?", delayMs: 20 });
    await sendMany(job, 100);
    await waitFor(() => setup.gateway.seen.length > 20);
    expect(app.inFlight).toBe(4);
    setup.gateway.load = { serving: 1, running: 8, waiting: 0, kv_use: 0.2 };
    await waitFor(() => app.inFlight > 24);
    await waitFor(() => allSealed(job, 100), { timeoutMs: 20_000 });
  });

  it("leaves the slots alone when nobody knows the load", async () => {
    const app = await setup.start({ maxEpisodes: 64, loadIntervalMs: 10 });
    await new Promise((resolve) => setTimeout(resolve, 200));
    expect(app.slots).toEqual({ open: 64, reason: "none" });
  });
});
