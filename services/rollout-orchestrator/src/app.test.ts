// SPDX-License-Identifier: Apache-2.0
import { durationFromMs } from "@bufbuild/protobuf/wkt";
import { sha256Hex } from "@whetstone/messaging";
import { DESIRED } from "@whetstone/messaging/jobs";
import { JobPhase } from "@whetstone/proto/jobs/v1/jobs";
import { type Episode, FailureClass, Purpose, TerminationReason } from "@whetstone/proto/types/v1/types";
import { waitFor } from "@whetstone/testkit";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { OrchestratorSetup } from "../test-support/orchestrator-setup.ts";

/** A process starts slowly where many others run. */
const STARTED = { timeoutMs: 30_000 };
let setup: OrchestratorSetup;

beforeAll(async () => {
  setup = await OrchestratorSetup.open();
});
afterAll(() => setup[Symbol.asyncDispose]());
beforeEach(() => setup.beforeEach());
afterEach(() => setup.afterEach());

function stepsOf(episode: Episode) {
  return episode.trajectories[0]?.steps ?? [];
}

describe("an episode", () => {
  it("is played, sealed with its calls and summary, and its task is acknowledged", async () => {
    const app = await setup.start();
    const job = await setup.newJob();
    await setup.send(job, 0);
    const { message, episode, summary } = await setup.sealed(job, 0);
    expect(message.msgId).toBe(`${job}/g0/s0`);
    expect(summary.digest).toBe(sha256Hex(await message.bytes()));
    expect(episode).toMatchObject({ id: `${job}/g0/s0`, job, group: "g0", sample: 0, attempt: 1, seed: 100n });
    expect(episode.failure?.failureClass).toBe(FailureClass.NONE);
    expect(stepsOf(episode).map(({ callId }) => callId)).toEqual(episode.calls.map(({ id }) => id));
    expect(stepsOf(episode)[0]).toMatchObject({ action: "Right", modelResponse: "R" });
    expect(summary).toMatchObject({ minPolicyVersion: 3n, maxPolicyVersion: 3n, unlabelledTokens: 0 });
    expect(summary.sampledTokens).toBe(stepsOf(episode).length);
    expect(setup.gateway.seen.every(({ body }) => body.messages.length === 1)).toBe(true);
    expect(setup.gateway.sessions.size).toBe(0);
    await waitFor(() => app.inFlight === 0);
    await expect(setup.tasksLeft(job)).resolves.toBe(0);
  });

  it("gives every call its own seed, the same in every attempt", async () => {
    await setup.start();
    const job = await setup.newJob();
    setup.script = () => ({ text: "?" });
    await setup.send(job, 1);
    await setup.sealed(job, 1);
    const seeds = setup.gateway.seen.map(({ body }) => body.seed);
    expect(new Set(seeds).size).toBe(5);
    setup.gateway.seen.length = 0;
    await setup.send(job, 2, { seed: 101n });
    await setup.sealed(job, 2);
    expect(setup.gateway.seen.map(({ body }) => body.seed)).toEqual(seeds);
  });

  it("keeps rLLM's conversation with the standard agent", async () => {
    await setup.start();
    const job = await setup.newJob();
    setup.script = () => ({ text: "I go.\n```Up```" });
    const environment = { kind: "frozenlake", args: { size: 4 } };
    await setup.send(job, 0, { agent: { kind: "frozenlake" }, environment });
    const { episode } = await setup.sealed(job, 0);
    const roles = setup.gateway.seen[1]?.body.messages.map(({ role }) => role);
    expect(stepsOf(episode)[0]?.action).toBe("Up");
    if (stepsOf(episode).length > 1) expect(roles).toEqual(["system", "user", "assistant", "user"]);
    expect(setup.gateway.seen[0]?.body.messages[1]?.content).toMatch(/^Current Observation \(0\): \n/);
  });
});

describe("failures are data", () => {
  it("seals a broken task as TASK, unplayed, with the field's path", async () => {
    await setup.start();
    const job = await setup.newJob();
    await setup.send(job, 0, { environment: { kind: "frozenlake", args: { size: 99 } } });
    const { episode, summary } = await setup.sealed(job, 0);
    expect(episode.terminationReason).toBe(TerminationReason.ERROR);
    expect(summary.failureClass).toBe(FailureClass.TASK);
    expect(summary.failureMessage).toContain("args.size");
  });

  it("seals an unknown agent as TASK", async () => {
    await setup.start();
    const job = await setup.newJob();
    await setup.send(job, 0, { agent: { kind: "nobody" } });
    expect((await setup.sealed(job, 0)).summary.failureClass).toBe(FailureClass.TASK);
  });

  it("seals an episode that hangs as DEADLINE, with the calls so far, and aborts the call", async () => {
    await setup.start();
    const job = await setup.newJob();
    setup.script = () =>
      setup.gateway.seen.length === 1 ? { text: "?" } : { text: "", delayMs: Number.POSITIVE_INFINITY };
    await setup.send(job, 0, { limits: { episodeTimeout: durationFromMs(400) } });
    const { episode } = await setup.sealed(job, 0);
    expect(episode.terminationReason).toBe(TerminationReason.DEADLINE);
    expect(episode.failure).toMatchObject({ failureClass: FailureClass.DEADLINE, phase: "model" });
    expect(episode.calls).toHaveLength(1);
    await waitFor(() => setup.gateway.aborted === 1);
  });

  it("plays again when the gateway lost the session, and counts only the last try", async () => {
    await setup.start();
    const job = await setup.newJob();
    setup.script = () => {
      if (setup.gateway.seen.length === 3) setup.gateway.forget();
      return { text: "?" };
    };
    await setup.send(job, 0);
    const { episode } = await setup.sealed(job, 0);
    expect(new Set(setup.gateway.seen.map(({ session }) => session)).size).toBe(2);
    expect(episode.failure?.failureClass).toBe(FailureClass.NONE);
    expect(episode.calls).toHaveLength(5);
  });

  it("is INFRASTRUCTURE, never reward 0 in silence, when the retries are used up", async () => {
    await setup.start();
    const job = await setup.newJob();
    setup.script = () => ({ text: "boom", status: 500 });
    await setup.send(job, 0, { limits: { retryLimit: 1 } });
    const { summary } = await setup.sealed(job, 0);
    expect(summary.failureClass).toBe(FailureClass.INFRASTRUCTURE);
    expect(setup.gateway.seen).toHaveLength(2);
  });
});

describe("delivery", () => {
  it("takes a second seal of the same episode as done", async () => {
    const job = await setup.newJob();
    await setup.send(job, 0);
    await setup.start();
    const first = await setup.sealed(job, 0);
    await setup.send(job, 0);
    await waitFor(
      async () => setup.gateway.seen.length > first.episode.calls.length && (await setup.tasksLeft(job)) === 0,
    );
    expect((await setup.sealed(job, 0)).message.sequence).toBe(first.message.sequence);
  });

  it("plays a task of a lost replica again: same id, same seed, attempt + 1", async () => {
    const job = await setup.newJob();
    setup.script = () => ({ text: "", delayMs: Number.POSITIVE_INFINITY });
    await using lost = setup.startReplica();
    await setup.send(job, 0);
    await waitFor(() => setup.gateway.seen.length === 1, STARTED);
    await lost.kill();
    setup.script = () => ({ text: "?" });
    await setup.start();
    const { episode } = await setup.sealed(job, 0, 15_000);
    expect(episode).toMatchObject({ id: `${job}/g0/s0`, attempt: 2, seed: 100n });
    expect(setup.gateway.seen[1]?.body.seed).toBe(setup.gateway.seen[0]?.body.seed);
    expect(setup.gateway.seen[1]?.session).not.toBe(setup.gateway.seen[0]?.session);
  });

  it("hands tasks back at once when it is stopped", async () => {
    const job = await setup.newJob();
    setup.script = () => ({ text: "", delayMs: Number.POSITIVE_INFINITY });
    const app = await setup.start({ ackWaitMs: 60_000 });
    await setup.send(job, 0);
    await waitFor(() => setup.gateway.seen.length === 1);
    const startedAt = performance.now();
    await app.close();
    expect(performance.now() - startedAt).toBeLessThan(15_000);
    setup.script = () => ({ text: "?" });
    await setup.start({ ackWaitMs: 60_000 });
    expect((await setup.sealed(job, 0)).episode.attempt).toBe(2);
  });

  it("aborts and ends the tasks of a cancelled job, and keeps those of a suspended one", async () => {
    const app = await setup.start();
    const job = await setup.newJob();
    setup.script = () => ({ text: "", delayMs: Number.POSITIVE_INFINITY });
    await setup.send(job, 0);
    await waitFor(() => app.inFlight === 1);
    await setup.setPhase(job, JobPhase.SUSPENDED);
    await waitFor(() => app.inFlight === 0);
    await expect(setup.tasksLeft(job)).resolves.toBe(1);
    await setup.setPhase(job, JobPhase.RUNNING);
    await waitFor(() => app.inFlight === 1);
    await setup.setPhase(job, JobPhase.RUNNING, DESIRED.cancelByUser());
    await waitFor(async () => app.inFlight === 0 && (await setup.tasksLeft(job)) === 0);
    expect(await setup.find(job, 0)).toBeUndefined();
  });

  it("does not take tasks of a queued job", async () => {
    const app = await setup.start();
    const job = await setup.newJob();
    await setup.setPhase(job, JobPhase.QUEUED);
    const other = await setup.newJob();
    await setup.send(job, 0);
    await setup.send(other, 0);
    await setup.sealed(other, 0);
    expect(app.jobs).toEqual([other]);
    await expect(setup.tasksLeft(job)).resolves.toBe(1);
  });

  it("seals a task as failed once its deliveries are used up, so that no batch waits for ever", async () => {
    const job = await setup.newJob();
    setup.script = () => ({ text: "", delayMs: Number.POSITIVE_INFINITY });
    await using lost = setup.startReplica();
    await setup.send(job, 0);
    await waitFor(() => setup.gateway.seen.length === 1, STARTED);
    await lost.kill();
    await setup.start({ maxDeliver: 1 });
    const { episode } = await setup.sealed(job, 0, 15_000);
    expect(episode).toMatchObject({ attempt: 2, failure: { failureClass: FailureClass.INFRASTRUCTURE } });
    expect(setup.gateway.seen.length).toBe(1);
  });

  it("does not start where bodies are to be put into a store that it is not told of", async () => {
    await expect(setup.start({ storeEpisodes: true })).rejects.toThrow(/^storeEpisodes: needs objectStore/);
  });

  it("waits while the EPISODE stream is full", async () => {
    await setup.start();
    const job = await setup.newJob({ maxEpisodeBytes: 2_000 });
    for (const sample of [0, 1, 2]) await setup.send(job, sample);
    await setup.sealed(job, 0, 1_000).catch(() => undefined); // How many fit is the server's business.
    await expect(setup.tasksLeft(job)).resolves.toBeGreaterThan(0);
    await setup.limit(job, { maxEpisodeBytes: 1024 * 1024 });
    for (const sample of [0, 1, 2])
      expect((await setup.sealed(job, sample)).summary.failureClass).toBe(FailureClass.NONE);
  });
});

describe("demonstrations", () => {
  it("are rendered by the gateway: no agent, no environment, reward 0", async () => {
    await setup.start();
    const job = await setup.newJob();
    const demonstration = [
      { role: "user", content: "P_G" },
      { role: "assistant", content: "R" },
    ];
    await setup.send(job, 0, { purpose: Purpose.DEMONSTRATION, task: { id: "d", demonstration } });
    const { episode, summary } = await setup.sealed(job, 0);
    expect(summary).toMatchObject({ sampledTokens: 0, demonstrationTokens: 2, promptTokens: 7, reward: 0 });
    expect(episode.trajectories).toEqual([]);
    expect(episode.calls).toHaveLength(1);
    expect(summary.minPolicyVersion).toBeUndefined();
  });

  it("the two of a pair are the members of a group: what was chosen is rewarded; tools go to the template", async () => {
    await setup.start();
    const job = await setup.newJob();
    const said = (content: string) => [
      { role: "user", content: "P_G" },
      { role: "assistant", content },
    ];
    const tools = [{ type: "function", function: { name: "add" } }];
    const task = { id: "d", chosen: said("better"), rejected: said("worse"), tools };
    for (const sample of [0, 1]) await setup.send(job, sample, { purpose: Purpose.DEMONSTRATION, task });
    const sealed = [await setup.sealed(job, 0), await setup.sealed(job, 1)];
    expect(sealed.map(({ summary }) => [summary.reward, summary.isCorrect])).toEqual([
      [1, true],
      [0, false],
    ]);
    const recorded = [{ id: "c0", promptIds: [1, 2], completionIds: [3, 4], logprobs: [-1, -1] }];
    const other = await setup.newJob();
    await setup.send(other, 0, { purpose: Purpose.DEMONSTRATION, task: { id: "r", chosenCalls: recorded } });
    const { episode, summary } = await setup.sealed(other, 0);
    expect(summary).toMatchObject({ reward: 1, demonstrationTokens: 2, promptTokens: 2, notTrainable: "" });
    expect(episode.calls).toMatchObject([{ promptIds: [1, 2], completionIds: [3, 4], logprobs: [] }]);
    expect(setup.gateway.rendered).toMatchObject([
      { messages: [{}, { content: "better" }], tools },
      { messages: [{}, { content: "worse" }], tools },
    ]);
  });
});
