// SPDX-License-Identifier: Apache-2.0
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

const SOUND = { failureClass: FailureClass.NONE };

describe("outages", () => {
  it("an env-runner that dies and comes back costs a try, not the episode", async () => {
    await using runner = await startEnvRunner();
    const port = Number(runner.address.split(":")[1]);
    await setup.start({ envAddress: runner.address });
    const job = await setup.newJob();
    setup.script = () => ({ text: "?", delayMs: 100 });
    await setup.send(job, 0);
    await waitFor(() => setup.gateway.seen.length === 2);
    await runner.kill();
    await using _again = await startEnvRunner({ port });
    const { summary, episode } = await setup.sealed(job, 0);
    expect(summary).toMatchObject({ ...SOUND, attempt: 1, steps: 5 });
    expect(episode.calls).toHaveLength(5);
  });

  it("an env-runner that is not there yet is waited for", async () => {
    await using gone = await startEnvRunner();
    const port = Number(gone.address.split(":")[1]);
    await gone.kill();
    await setup.start({ envAddress: gone.address });
    const job = await setup.newJob();
    await setup.send(job, 0);
    await new Promise((resolve) => setTimeout(resolve, 300));
    await using _there = await startEnvRunner({ port });
    expect((await setup.sealed(job, 0)).summary).toMatchObject(SOUND);
  });

  it("full slots are waited for: no try is lost to them", async () => {
    await using runner = await startEnvRunner({ env: { WHETSTONE_SLOTS: "1" } });
    await setup.start({ envAddress: runner.address });
    const job = await setup.newJob();
    setup.script = () => ({ text: "?", delayMs: 10 });
    for (const sample of [0, 1, 2, 3]) await setup.send(job, sample);
    for (const sample of [0, 1, 2, 3]) expect((await setup.sealed(job, sample)).summary).toMatchObject(SOUND);
    expect(setup.gateway.seen).toHaveLength(20);
  });

  it("a busy gateway is asked again", async () => {
    await setup.start();
    const job = await setup.newJob();
    setup.script = () => (setup.gateway.seen.length < 3 ? { text: "busy", status: 503 } : { text: "?" });
    await setup.send(job, 0);
    expect((await setup.sealed(job, 0)).summary).toMatchObject(SOUND);
    expect(setup.gateway.seen[0]?.headers["x-whetstone-idempotency-key"]).toBe("0");
  });

  it("nats that restarts loses nothing", async () => {
    await setup.start();
    const job = await setup.newJob();
    setup.script = () => ({ text: "?", delayMs: 100 });
    for (const sample of [0, 1, 2]) await setup.send(job, sample);
    await waitFor(() => setup.gateway.seen.length >= 3);
    await setup.server.restart();
    for (const sample of [0, 1, 2]) expect((await setup.sealed(job, sample, 20_000)).summary).toMatchObject(SOUND);
    await waitFor(async () => (await setup.tasksLeft(job)) === 0);
  });
});

describe("size and end", () => {
  it("an episode above half a megabyte travels by claim check", async () => {
    await setup.start();
    const job = await setup.newJob();
    setup.script = () => ({ text: "x".repeat(60_000) });
    await setup.send(job, 0, { limits: { maxResponseTokens: 1_000_000 } });
    const { message, episode } = await setup.sealed(job, 0);
    expect(message.headers["Whetstone-Claim"]).toBeDefined();
    expect(episode.trajectories[0]?.steps[4]?.modelResponse).toHaveLength(60_000);
  });

  it("SIGTERM: the process is gone soon and its tasks are free at once", async () => {
    const job = await setup.newJob();
    setup.script = () => ({ text: "", delayMs: Number.POSITIVE_INFINITY });
    await using replica = setup.startReplica(60_000);
    await setup.send(job, 0);
    await waitFor(() => setup.gateway.seen.length === 1, { timeoutMs: 30_000 });
    const startedAt = performance.now();
    await replica.kill("SIGTERM");
    expect(performance.now() - startedAt).toBeLessThan(15_000);
    setup.script = () => ({ text: "?" });
    await setup.start({ ackWaitMs: 60_000 });
    expect((await setup.sealed(job, 0)).summary.attempt).toBe(2);
  });

  it("ends more episodes than may play at once", async () => {
    const app = await setup.start({ maxEpisodes: 4 });
    const job = await setup.newJob();
    let peak = 0;
    setup.script = () => {
      peak = Math.max(peak, app.inFlight);
      return { text: "?", delayMs: 2 };
    };
    for (let sample = 0; sample < 40; sample += 1) await setup.send(job, sample);
    await waitFor(async () => (await setup.tasksLeft(job)) === 0);
    expect(peak).toBe(4);
    for (let sample = 0; sample < 40; sample += 1) expect(await setup.find(job, sample)).toBeDefined();
  });
});
