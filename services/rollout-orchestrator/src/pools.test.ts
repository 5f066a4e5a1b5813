// SPDX-License-Identifier: Apache-2.0
// Env-runners that come and go.
import { FailureClass } from "@whetstone/proto/types/v1/types";
import { waitFor } from "@whetstone/testkit";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { type EnvRunnerProcess, startEnvRunner } from "../test-support/env-runner-process.ts";
import { OrchestratorSetup } from "../test-support/orchestrator-setup.ts";

let setup: OrchestratorSetup;
let pool: string;
let pools = 0;
const runners: EnvRunnerProcess[] = [];

beforeAll(async () => {
  setup = await OrchestratorSetup.open();
});
afterAll(() => setup[Symbol.asyncDispose]());
beforeEach(() => {
  pool = `pool-${(pools += 1)}`;
  return setup.beforeEach();
});
afterEach(async () => {
  await setup.afterEach();
  await Promise.all(runners.splice(0).map((runner) => runner[Symbol.asyncDispose]()));
});

const SOUND = { failureClass: FailureClass.NONE, attempt: 1 };
const WATCH = { watchPools: true };

async function startRunner(slots: number, env: Record<string, string> = {}): Promise<EnvRunnerProcess> {
  const runner = await startEnvRunner({ env: { WHETSTONE_SLOTS: String(slots), ...env } });
  runners.push(runner);
  return runner;
}

const listed = (id: string, runner: EnvRunnerProcess, slots: number, draining = false) => ({
  id,
  address: runner.address,
  slots,
  draining,
});

function newJob(): Promise<string> {
  return setup.newJob({}, { environment: { kind: "frozenlake", pool } });
}

const environment = () => ({ kind: "frozenlake", args: { size: 4, observation: "compact", maxSteps: 8 }, pool });

/** A second try would be a failure. */
const once = () => ({ environment: environment(), limits: { retryLimit: 0 } });

async function sendMany(job: string, count: number): Promise<void> {
  for (let sample = 0; sample < count; sample += 1) await setup.send(job, sample, once());
}

async function expectSound(job: string, count: number): Promise<void> {
  for (let sample = 0; sample < count; sample += 1)
    expect((await setup.sealed(job, sample, 20_000)).summary).toMatchObject(SOUND);
}

describe("a pool", () => {
  it("without runners leaves tasks where they are and burns no try; they play when there are some", async () => {
    const app = await setup.start(WATCH);
    const job = await newJob();
    await sendMany(job, 20);
    await new Promise((resolve) => setTimeout(resolve, 1_500));
    expect([app.inFlight, (await setup.tasksTaken(job, pool)) ?? 0]).toEqual([0, 0]);
    const runner = await startRunner(4);
    await setup.setPool(pool, [listed("a", runner, 4)]);
    await expectSound(job, 20);
    await setup.setPool(pool, []);
    await new Promise((resolve) => setTimeout(resolve, 200));
    await setup.send(job, 99, once());
    await new Promise((resolve) => setTimeout(resolve, 500));
    expect(await setup.find(job, 99)).toBeUndefined();
  });

  it("has its sessions spread, never more than its slots, and the orchestrator tells of them", async () => {
    const [a, b] = [await startRunner(2), await startRunner(6)];
    await setup.setPool(pool, [listed("a", a, 2), listed("b", b, 6)]);
    const app = await setup.start({ ...WATCH, loadIntervalMs: 50 });
    setup.script = () => ({ text: "?", delayMs: 300 });
    const job = await newJob();
    const full = setup.loadOf(pool, (loads) => loads["a"] === 2 && loads["b"] === 6);
    await sendMany(job, 24);
    await waitFor(() => app.inFlight === 8);
    await full;
    expect(app.inFlight).toBe(8);
    await expectSound(job, 24);
  });

  it("is shared with another orchestrator by what each tells", async () => {
    const runner = await startRunner(8);
    await setup.setPool(pool, [listed("a", runner, 8)]);
    const [one, other] = [await setup.start(WATCH), await setup.start(WATCH)];
    setup.script = () => ({ text: "?", delayMs: 50 });
    const job = await newJob();
    await sendMany(job, 60);
    await waitFor(() => one.inFlight + other.inFlight > 0);
    await expectSound(job, 60);
  });

  it("loses a runner that drains: it finishes what it has, the rest plays elsewhere", async () => {
    const [a, b] = [await startRunner(4), await startRunner(4)];
    await setup.setPool(pool, [listed("a", a, 4), listed("b", b, 4)]);
    await setup.start(WATCH);
    setup.script = () => ({ text: "?", delayMs: 100 });
    const job = await newJob();
    const spread = setup.loadOf(pool, (loads) => (loads["a"] ?? 0) > 0 && (loads["b"] ?? 0) > 0);
    await sendMany(job, 40);
    await spread;
    const left = setup.loadOf(pool, (loads) => loads["a"] === undefined && (loads["b"] ?? 0) > 0);
    await setup.setPool(pool, [listed("a", a, 4, true), listed("b", b, 4)]);
    await left;
    await setup.setPool(pool, [listed("b", b, 4)]);
    await a.kill(); // Nothing is open there.
    await expectSound(job, 40);
  });

  it("hands back what a runner has that must go at once: same id, no try, no delivery used", async () => {
    const [a, b] = [await startRunner(8), await startRunner(8)];
    await setup.setPool(pool, [listed("a", a, 8)]);
    await setup.start(WATCH);
    setup.script = () => ({ text: "?", delayMs: 200 });
    const job = await newJob();
    await sendMany(job, 8);
    await setup.loadOf(pool, (loads) => loads["a"] === 8);
    await a[Symbol.asyncDispose](); // SIGTERM, with no time to finish.
    await setup.setPool(pool, [listed("b", b, 8)]);
    await expectSound(job, 8);
  });

  it("of a list that is out of date costs nothing but a moment", async () => {
    const [gone, there] = [await startRunner(8), await startRunner(8)];
    await gone.kill();
    await setup.setPool(pool, [listed("gone", gone, 64), listed("there", there, 8)]);
    await setup.start(WATCH);
    const job = await newJob();
    await sendMany(job, 10);
    await expectSound(job, 10);
  });

  it("is not told anything by a leader that was replaced", async () => {
    const runner = await startRunner(8);
    await setup.setPool(pool, [listed("a", runner, 8)], 5);
    await setup.start(WATCH);
    const job = await newJob();
    await sendMany(job, 1);
    await expectSound(job, 1);
    await setup.setPool(pool, [], 4);
    await new Promise((resolve) => setTimeout(resolve, 200));
    await setup.send(job, 1, once());
    await expectSound(job, 2);
  });
});
