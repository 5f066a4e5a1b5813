// SPDX-License-Identifier: Apache-2.0
// What happens to calls when engines pause, lie, die or fill up, and when clients leave.
import { deriveSeed } from "@whetstone/core";
import { EngineState } from "@whetstone/proto/inference/v1/inference";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { FakeEngine, fakeLogprob } from "../test/fake-engine.ts";
import { calls, chat, chatStream, eventually, TINY, serve, startGateway, user } from "../test/harness.ts";
import type { Gateway } from "../test/harness.ts";

const END = 260;
let engines: FakeEngine[];
let gateway: Gateway;

beforeEach(async () => {
  engines = [await FakeEngine.start(), await FakeEngine.start()];
  gateway = await startGateway({ maxWaiting: 4, maxInFlightPerEngine: 4, drainQuietMs: 50 });
});
afterEach(async () => {
  await gateway.close();
  await Promise.all(engines.map((engine) => engine.kill()));
});

const engine = (index: number): FakeEngine => engines[index]!;
const serveEngine = (index: number, version = 1n) => serve(gateway, `e${index}`, engine(index).url, TINY, version);

async function stateOf(id: string): Promise<{ state: EngineState; reason: string; inFlight: number }> {
  const found = (await gateway.fleet.listEngines({})).engines.find((one) => one.id === id);
  if (found === undefined) throw new Error(`no engine ${id}`);
  return found;
}

/** The controller's steps of a weight switch. */
async function switchTo(index: number, version: bigint): Promise<void> {
  const id = `e${index}`;
  await gateway.fleet.fenceEngine({ id });
  engine(index).abortAll();
  await gateway.fleet.drainEngine({ id }, { deadlineMs: 5000 });
  engine(index).label = `job:${version}`;
  engine(index).hold = false;
  await serveEngine(index, version);
}

describe("weight switches", () => {
  it.each([false, true])("continues an interrupted call under the new label, streamed: %s", async (stream) => {
    await serveEngine(0);
    Object.assign(engine(0), {
      hold: true,
      holdAfter: 2,
      script: (r: { token_ids: number[] }) => (r.token_ids.length === 3 ? [65, 66, 67, END] : [68, END]),
    });
    const answer = stream
      ? chatStream(gateway, "s", [user("x")], { seed: 5, max_tokens: 9 })
      : chat(gateway, "s", [user("x")], { seed: 5, max_tokens: 9 });
    await eventually(() => engine(0).running === 1);
    await switchTo(0, 2n);
    await answer;
    const [call] = (await calls(gateway, "s")).calls;
    expect(call).toMatchObject({
      completionIds: [65, 66, 68, END],
      text: "ABD",
      resubmissions: 1,
      finishReason: "stop",
    });
    expect(call?.logprobs).toEqual([65, 66, 68, END].map(fakeLogprob));
    expect(call?.versionSpans).toMatchObject([
      { start: 0, end: 2, policyVersion: 1n },
      { start: 2, end: 4, policyVersion: 2n },
    ]);
    expect(engine(0).requests[1]).toMatchObject({
      token_ids: [256, 120, 257, 65, 66],
      sampling_params: { max_tokens: 7, seed: deriveSeed(5, 1) },
    });
  });

  it("repeats the seed of a call that was interrupted before its first token", async () => {
    await serveEngine(0);
    Object.assign(engine(0), { hold: true, holdAfter: 0 });
    const answer = chat(gateway, "s", [user("x")], { seed: 5 });
    await eventually(() => engine(0).running === 1);
    await switchTo(0, 2n);
    expect((await answer).status).toBe(200);
    expect(engine(0).requests.map((request) => request.sampling_params.seed)).toEqual([5, 5]);
  });

  it("takes back what a paused engine has queued, so that a drain ends and nothing runs under an unexpected label", async () => {
    await serveEngine(0);
    await serveEngine(1);
    Object.assign(engine(0), { faults: [{ kind: "hang" }] });
    Object.assign(engine(1), { faults: [{ kind: "hang" }] });
    const answer = chat(gateway, "s", [user("x")]);
    await eventually(() => engine(0).running + engine(1).running === 1);
    const busy = engine(0).running === 1 ? 0 : 1;
    engine(1 - busy).faults = [];
    const id = `e${busy}`;
    await gateway.fleet.fenceEngine({ id });
    expect((await gateway.fleet.drainEngine({ id })).engine?.inFlight).toBe(0);
    expect((await answer).status).toBe(200);
    await eventually(() => engine(busy).disconnects === 1);
  });

  it("makes calls wait while every engine is fenced, within their deadline", async () => {
    await serveEngine(0);
    await gateway.fleet.fenceEngine({ id: "e0" });
    const waits = chat(gateway, "s", [user("x")]);
    const late = chat(gateway, "s", [user("x")], {}, { headers: { "x-whetstone-timeout-ms": "40" } });
    const message = expect.stringMatching(/waited for an engine that has room/) as unknown;
    expect(await late).toMatchObject({ status: 504, body: { error: { code: "deadline_exceeded", message } } });
    expect((await gateway.fleet.listEngines({})).waitingCalls).toEqual({ job: 1 });
    await serveEngine(0);
    expect((await waits).status).toBe(200);
    expect((await gateway.fleet.listEngines({})).waitingCalls).toEqual({});
  });

  it("never sends a session back to an older version (I5)", async () => {
    await serveEngine(0, 1n);
    engine(1).label = "job:2";
    await serveEngine(1, 2n);
    await gateway.fleet.fenceEngine({ id: "e0" });
    await chat(gateway, "s", [user("x")]);
    await serveEngine(0, 1n);
    await gateway.fleet.fenceEngine({ id: "e1" });
    const refused = await chat(gateway, "s", [user("y")], {}, { headers: { "x-whetstone-timeout-ms": "60" } });
    expect(refused.status).toBe(504);
    expect((await chat(gateway, "other", [user("y")])).status).toBe(200);
  });
});

describe("engines that break a promise (I7)", () => {
  it.each(["spans", "header"])(
    "quarantines an engine with another label and discards its answer: %s",
    async (where) => {
      await serveEngine(0);
      if (where === "spans") engine(0).label = "job:9";
      else engine(0).header = "job:9";
      const answer = chat(gateway, "s", [user("x")]);
      await eventually(async () => (await stateOf("e0")).state === EngineState.QUARANTINED);
      expect((await stateOf("e0")).reason).toContain('"job:9"');
      await serveEngine(1);
      expect((await answer).status).toBe(200);
      const [call] = (await calls(gateway, "s")).calls;
      expect(call).toMatchObject({ resubmissions: 1, versionSpans: [{ start: 0, end: 2, policyVersion: 1n }] });
      const metrics = await (await fetch(`${gateway.httpUrl}/metrics`)).text();
      expect(metrics).toMatch(/whetstone_gateway_label_mismatch_total\{[^}]*\} 1/);
    },
  );

  it("leaves tokens that a client has seen from a lying engine outside every span", async () => {
    await serveEngine(0);
    engine(0).label = "job:9";
    await chatStream(gateway, "s", [user("x")]);
    const [call] = (await calls(gateway, "s")).calls;
    expect(call).toMatchObject({ versionSpans: [], finishReason: "stop" });
    expect(call?.completionIds).toHaveLength(2);
    expect((await stateOf("e0")).state).toBe(EngineState.QUARANTINED);
  });

  it.each(["missing-logprob", "status", "die-after"] as const)("makes a failed attempt again: %s", async (kind) => {
    await serveEngine(0);
    engine(0).faults = [
      kind === "status" ? { kind, status: 500 } : kind === "die-after" ? { kind, tokens: 0 } : { kind },
    ];
    expect((await chat(gateway, "s", [user("x")], { seed: 3 })).status).toBe(200);
    const [call] = (await calls(gateway, "s")).calls;
    expect(call).toMatchObject({ resubmissions: 1, completionIds: [68, END] });
    expect(engine(0).requests.map((request) => request.sampling_params.seed)).toEqual([3, 3]);
  });

  it("goes on elsewhere when an engine dies, and quarantines it", async () => {
    await serveEngine(0);
    engine(0).faults = [{ kind: "hang" }];
    const answer = chat(gateway, "s", [user("x")]);
    await eventually(() => engine(0).running === 1);
    await serveEngine(1);
    await engine(0).kill();
    expect((await answer).status).toBe(200);
    await eventually(async () => (await stateOf("e0")).state === EngineState.QUARANTINED);
  });

  it("continues a stream whose engine died; the client sees one answer, the orphaned tokens no span", async () => {
    await serveEngine(0);
    engine(0).script = (request) => (request.token_ids.length === 3 ? [65, 66, 67, END] : [68, END]);
    engine(0).faults = [{ kind: "die-after", tokens: 2 }];
    const chunks = await chatStream(gateway, "s", [user("x")]);
    expect(chunks.flatMap(({ choices }) => choices.map(({ delta }) => delta.content ?? "")).join("")).toBe("ABD");
    const [call] = (await calls(gateway, "s")).calls;
    expect(call).toMatchObject({
      completionIds: [65, 66, 68, END],
      versionSpans: [{ start: 2, end: 4, policyVersion: 1n }],
    });
  });

  it("keeps what a broken stream had sampled under its label, where the engine told it with each chunk (I5)", async () => {
    await serveEngine(0);
    engine(0).tellsVersions = true;
    engine(0).script = (request) => (request.token_ids.length === 3 ? [65, 66, 67, END] : [68, END]);
    engine(0).faults = [{ kind: "die-after", tokens: 2 }];
    await chatStream(gateway, "s", [user("x")]);
    expect((await calls(gateway, "s")).calls).toMatchObject([
      { completionIds: [65, 66, 68, END], versionSpans: [{ start: 0, end: 4, policyVersion: 1n }] },
    ]);
  });

  it("does not keep them under a label that is not the fence's", async () => {
    await serveEngine(0);
    engine(0).tellsVersions = true;
    engine(0).script = (request) => (request.token_ids.length === 3 ? [65, 66, 67, END] : [68, END]);
    engine(0).faults = [{ kind: "die-after", tokens: 2 }];
    engine(0).label = "job:2";
    await chatStream(gateway, "s", [user("x")]);
    expect((await calls(gateway, "s")).calls).toMatchObject([{ completionIds: [65, 66, 68, END], versionSpans: [] }]);
  });

  it("frees calls that hang in an engine whose health checks fail", async () => {
    await serveEngine(0);
    engine(0).faults = [{ kind: "hang" }];
    const answer = chat(gateway, "s", [user("x")]);
    await eventually(() => engine(0).running === 1);
    engine(0).healthy = false;
    await eventually(async () => (await stateOf("e0")).state === EngineState.QUARANTINED);
    expect((await stateOf("e0")).reason).toContain("health");
    await serveEngine(1);
    expect((await answer).status).toBe(200);
  });

  it("gives up after some failures and passes a refusal on at once", async () => {
    await serveEngine(0);
    engine(0).faults = Array.from({ length: 6 }, () => ({ kind: "status" as const, status: 500 }));
    expect(await chat(gateway, "s", [user("x")])).toMatchObject({
      status: 502,
      body: { error: { code: "engines_failed" } },
    });
    engine(0).faults = [{ kind: "status", status: 400, message: "token 7 is out of vocabulary" }];
    const refused = await chat(gateway, "s", [user("x")]);
    expect(refused).toMatchObject({ status: 400, body: { error: { type: "invalid_request_error" } } });
    expect(refused.body.error?.message).toContain("out of vocabulary");
    expect((await calls(gateway, "s")).calls).toEqual([]);
  });

  it("quarantines what is no engine", async () => {
    await serveEngine(0);
    await serveEngine(1);
    engine(0).faults = [{ kind: "status", status: 403 }];
    engine(1).faults = [];
    await Promise.all(["a", "b"].map((session) => chat(gateway, session, [user("x")])));
    expect((await stateOf("e0")).reason).toContain("403");
  });
});

describe("clients that leave (I9)", () => {
  it.each([false, true])("aborts the engine's request and frees its place, streamed: %s", async (stream) => {
    await serveEngine(0);
    Object.assign(engine(0), { hold: true, script: () => [65, 66, END] });
    const controller = new AbortController();
    const answer = chat(gateway, "s", [user("x")], { stream }, { signal: controller.signal });
    answer.catch(() => undefined);
    await eventually(() => engine(0).running === 1);
    controller.abort();
    await eventually(() => engine(0).disconnects === 1);
    await eventually(async () => (await stateOf("e0")).inFlight === 0);
    expect((await calls(gateway, "s")).calls).toEqual([]);
    const metrics = await (await fetch(`${gateway.httpUrl}/metrics`)).text();
    expect(/requests_total\{code="499"/.test(metrics)).toBe(true);
  });
});

describe("bounds and spread (I8)", () => {
  it("answers 429 when too many calls wait", async () => {
    await serveEngine(0);
    await gateway.fleet.fenceEngine({ id: "e0" });
    const waiting = Array.from({ length: 4 }, (_, i) => chat(gateway, `w${i}`, [user("x")]));
    await eventually(async () => (await gateway.fleet.listEngines({})).waitingCalls["job"] === 4);
    const refused = await chat(gateway, "s", [user("x")]);
    expect(refused).toMatchObject({ status: 429, body: { error: { code: "queue_full", type: "rate_limit_error" } } });
    expect(refused.headers.get("retry-after")).toBe("1");
    await serveEngine(0);
    expect((await Promise.all(waiting)).map(({ status }) => status)).toEqual([200, 200, 200, 200]);
  });

  it("spreads new sessions over the engines and keeps a session where it was", async () => {
    await serveEngine(0);
    await serveEngine(1);
    for (const one of engines) one.hold = true;
    const first = Array.from({ length: 6 }, (_, i) => chat(gateway, `s${i}`, [user("x")]));
    await eventually(() => engine(0).running === 3 && engine(1).running === 3);
    for (const one of engines) one.release();
    await Promise.all(first);
    const home = engine(0).requests.some(({ request_id }) => request_id.endsWith("-0")) ? 0 : 1;
    const before = engine(home).requests.length;
    for (let turn = 0; turn < 3; turn++) await chat(gateway, "s0", [user(String(turn))]);
    expect(engine(home).requests.length - before).toBe(3);
  });

  it("never runs more calls on an engine than its bound", async () => {
    await serveEngine(0);
    engine(0).hold = true;
    const all = Array.from({ length: 8 }, (_, i) => chat(gateway, `s${i}`, [user("x")]));
    await eventually(async () => (await gateway.fleet.listEngines({})).waitingCalls["job"] === 4);
    expect(engine(0).running).toBe(4);
    engine(0).release();
    expect((await Promise.all(all)).map(({ status }) => status)).toEqual(Array(8).fill(200));
  });
});
