// SPDX-License-Identifier: Apache-2.0
import { FailureClass } from "@whetstone/proto/types/v1/types";
import { waitFor } from "@whetstone/testkit";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { startEnvRunner } from "../test-support/env-runner-process.ts";
import { House } from "../test-support/house.ts";

let house: House;

beforeAll(async () => {
  house = await House.open();
});
afterAll(() => house[Symbol.asyncDispose]());
beforeEach(() => house.beforeEach());
afterEach(() => house.afterEach());

const SOUND = { failureClass: FailureClass.NONE };

describe("outages", () => {
  it("an env-runner that dies and comes back costs a try, not the episode", async () => {
    await using runner = await startEnvRunner();
    const port = Number(runner.address.split(":")[1]);
    await house.start({ envAddress: runner.address });
    const job = await house.newJob();
    house.script = () => ({ text: "?", delayMs: 100 });
    await house.send(job, 0);
    await waitFor(() => house.gateway.seen.length === 2);
    await runner.kill();
    await using _again = await startEnvRunner({ port });
    const { summary, episode } = await house.sealed(job, 0);
    expect(summary).toMatchObject({ ...SOUND, attempt: 1, steps: 5 });
    expect(episode.calls).toHaveLength(5);
  });

  it("an env-runner that is not there yet is waited for", async () => {
    await using gone = await startEnvRunner();
    const port = Number(gone.address.split(":")[1]);
    await gone.kill();
    await house.start({ envAddress: gone.address });
    const job = await house.newJob();
    await house.send(job, 0);
    await new Promise((resolve) => setTimeout(resolve, 300));
    await using _there = await startEnvRunner({ port });
    expect((await house.sealed(job, 0)).summary).toMatchObject(SOUND);
  });

  it("full slots are waited for: no try is lost to them", async () => {
    await using runner = await startEnvRunner({ env: { WHETSTONE_SLOTS: "1" } });
    await house.start({ envAddress: runner.address });
    const job = await house.newJob();
    house.script = () => ({ text: "?", delayMs: 10 });
    for (const sample of [0, 1, 2, 3]) await house.send(job, sample);
    for (const sample of [0, 1, 2, 3]) expect((await house.sealed(job, sample)).summary).toMatchObject(SOUND);
    expect(house.gateway.seen).toHaveLength(20);
  });

  it("a busy gateway is asked again", async () => {
    await house.start();
    const job = await house.newJob();
    house.script = () => (house.gateway.seen.length < 3 ? { text: "busy", status: 503 } : { text: "?" });
    await house.send(job, 0);
    expect((await house.sealed(job, 0)).summary).toMatchObject(SOUND);
    expect(house.gateway.seen[0]?.headers["x-whetstone-idempotency-key"]).toBe("0");
  });

  it("nats that restarts loses nothing", async () => {
    await house.start();
    const job = await house.newJob();
    house.script = () => ({ text: "?", delayMs: 100 });
    for (const sample of [0, 1, 2]) await house.send(job, sample);
    await waitFor(() => house.gateway.seen.length >= 3);
    await house.server.restart();
    for (const sample of [0, 1, 2]) expect((await house.sealed(job, sample, 20_000)).summary).toMatchObject(SOUND);
    await waitFor(async () => (await house.tasksLeft(job)) === 0);
  }, 30_000);
});

describe("size and end", () => {
  it("an episode above half a megabyte travels by claim check", async () => {
    await house.start();
    const job = await house.newJob();
    house.script = () => ({ text: "x".repeat(60_000) });
    await house.send(job, 0, { limits: { maxResponseTokens: 1_000_000 } });
    const { message, episode } = await house.sealed(job, 0);
    expect(message.headers["Whetstone-Claim"]).toBeDefined();
    expect(episode.trajectories[0]?.steps[4]?.modelResponse).toHaveLength(60_000);
  });

  it("SIGTERM: the process is gone within five seconds and its tasks are free at once", async () => {
    const job = await house.newJob();
    house.script = () => ({ text: "", delayMs: Number.POSITIVE_INFINITY });
    await using replica = house.startReplica(60_000);
    await house.send(job, 0);
    await waitFor(() => house.gateway.seen.length === 1);
    const startedAt = performance.now();
    await replica.kill("SIGTERM");
    expect(performance.now() - startedAt).toBeLessThan(5_000);
    house.script = () => ({ text: "?" });
    await house.start({ ackWaitMs: 60_000 });
    expect((await house.sealed(job, 0)).summary.attempt).toBe(2);
  });

  it("ends more episodes than may play at once", async () => {
    const app = await house.start({ maxEpisodes: 4 });
    const job = await house.newJob();
    let peak = 0;
    house.script = () => {
      peak = Math.max(peak, app.inFlight);
      return { text: "?", delayMs: 2 };
    };
    for (let sample = 0; sample < 40; sample += 1) await house.send(job, sample);
    await waitFor(async () => (await house.tasksLeft(job)) === 0);
    expect(peak).toBe(4);
    for (let sample = 0; sample < 40; sample += 1) expect(await house.find(job, sample)).toBeDefined();
  });
});
