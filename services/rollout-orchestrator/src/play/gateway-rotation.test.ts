// SPDX-License-Identifier: Apache-2.0
// Which replica of the gateway holds a session, when replicas leave, die or hang.
import { createServer, type RequestListener, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { type FakeGateway, startFakeGateway } from "../../test-support/fake-gateway.ts";
import { Gateway } from "./gateway.ts";
import { GatewayRotation } from "./gateway-rotation.ts";
import { GatewaySession } from "./gateway-session.ts";

const TERMS = { sampling: {}, client_sampling: "context" } as const;
let fake: FakeGateway;
let live: Gateway;
let stack: AsyncDisposableStack;

beforeEach(async () => {
  stack = new AsyncDisposableStack();
  fake = stack.use(await startFakeGateway(() => ({ text: "R" })));
  live = stack.use(new Gateway(fake.url, 4));
});
afterEach(() => stack.disposeAsync());

/** Another replica, which answers so. */
async function replica(answer: RequestListener): Promise<{ gateway: Gateway; server: Server }> {
  const server = createServer(answer);
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  stack.defer(() => {
    server.closeAllConnections();
    server.close();
  });
  const gateway = stack.use(new Gateway(`http://127.0.0.1:${(server.address() as AddressInfo).port}`, 4));
  return { gateway, server };
}

const leaving: RequestListener = (_request, response) =>
  response
    .writeHead(503, { "retry-after": "1" })
    .end(JSON.stringify({ error: { code: "gateway_leaving", message: "" } }));

function ask(session: GatewaySession): Promise<{ text: string }> {
  const limits = { sampling: {}, maxTokens: 4, seed: 1, role: "agent", remainingMs: 9_000 };
  return session.chat([{ role: "user", content: "hi" }], { ...limits, signal: AbortSignal.timeout(9_000) });
}

const newSession = (all: readonly Gateway[], name: string): GatewaySession =>
  new GatewaySession(new GatewayRotation(() => all), name, { model: "job", terms: TERMS });

it("takes turns among those that take sessions, and tries all where none does", async () => {
  const { gateway: other } = await replica(leaving);
  const rotation = new GatewayRotation(() => [live, other]);
  const picked = Array.from({ length: 6 }, () => rotation.pick());
  expect(picked.filter((each) => each === live)).toHaveLength(3);
  other.lost();
  expect(new Set([rotation.pick(), rotation.pick()])).toEqual(new Set([live]));
  live.lost();
  expect(new Set([rotation.pick(), rotation.pick()])).toEqual(new Set([live, other]));
});

it("begins a session elsewhere that a replica which leaves does not take, also for a key", async () => {
  const { gateway: other } = await replica(leaving);
  for (const name of ["a", "b", "c", "d"]) {
    other.takesSessions = true;
    const session = newSession([other, live], name);
    expect(await ask(session)).toMatchObject({ text: "R" });
    await session.finish([], AbortSignal.timeout(5_000));
    expect(session.calls).toHaveLength(1);
  }
  other.takesSessions = true;
  for (const name of ["e", "f"]) {
    const { apiKey } = await newSession([other, live], name).openEndpoint(AbortSignal.timeout(5_000));
    expect(apiKey).toBe(`key-of-${name}`);
  }
});

it("gives a dead replica up within a moment where there is another, and opens no session there", async () => {
  const { gateway: dead, server } = await replica(leaving);
  server.close();
  const rotation = new GatewayRotation(() => [dead, live]);
  let session = new GatewaySession(rotation, "dead", { model: "job", terms: TERMS });
  if (session.endpoint.baseUrl.startsWith(fake.url))
    session = new GatewaySession(rotation, "x", { model: "job", terms: TERMS });
  const from = performance.now();
  await expect(ask(session)).rejects.toThrow(/connection failed/);
  expect(performance.now() - from).toBeLessThan(3_000);
  expect(new Set([rotation.pick(), rotation.pick()])).toEqual(new Set([live]));
});

describe("a replica that has left handed its session to another", () => {
  let leaver: FakeGateway;
  let session: GatewaySession;

  beforeEach(async () => {
    leaver = await startFakeGateway(() => ({ text: "L" }));
    const all = [stack.use(new Gateway(leaver.url, 4))];
    session = new GatewaySession(new GatewayRotation(() => all), "moves", { model: "job", terms: TERMS });
    all.push(live);
    expect(await ask(session)).toMatchObject({ text: "L" });
  });
  afterEach(() => leaver[Symbol.asyncDispose]());

  it("its calls go on there, each as the repeat that it is, and are taken there, though the old one is gone", async () => {
    fake.takeOver(leaver);
    await leaver[Symbol.asyncDispose]();
    const both = await Promise.all([ask(session), ask(session)]);
    expect(both.map(({ text }) => text)).toEqual(["R", "R"]);
    expect(fake.seen.map(({ headers }) => headers["x-whetstone-idempotency-key"]).toSorted()).toEqual(["1", "2"]);
    await session.finish([], AbortSignal.timeout(5_000));
    expect(session.calls?.map(({ id, text }) => [id, text])).toEqual([
      ["c0", "L"],
      ["c1", "R"],
      ["c2", "R"],
    ]);
  });

  it("also where another process is at the old one's address, which does not begin it anew", async () => {
    fake.takeOver(leaver);
    expect(await ask(session)).toMatchObject({ text: "R" });
    expect(leaver.sessions.size).toBe(0);
  });

  it("also when only its calls are to be taken", async () => {
    fake.takeOver(leaver);
    await session.finish([], AbortSignal.timeout(5_000));
    expect(session.calls).toHaveLength(1);
  });

  it("where nobody has it, it is lost, and not begun anew", async () => {
    leaver.forget();
    await expect(ask(session)).rejects.toMatchObject({ code: "DATA_LOSS" });
    await expect(session.finish([], AbortSignal.timeout(5_000))).rejects.toMatchObject({ code: "DATA_LOSS" });
    expect([...leaver.sessions, ...fake.sessions]).toEqual([]);
  });
});

it("believes no look right after a loss, and one that says no at once", async () => {
  const { gateway: other } = await replica((_request, response) => response.end());
  other.lost();
  await other.look();
  expect(other.takesSessions).toBe(false);
  const { gateway: leaves } = await replica(leaving);
  await leaves.look();
  expect(leaves.takesSessions).toBe(false);
  await live.look();
});
