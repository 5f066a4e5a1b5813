// SPDX-License-Identifier: Apache-2.0
// One client that asks without measure, beside one that does not.
import { afterEach, beforeEach, expect, it } from "vitest";
import { FakeEngine } from "../test/fake-engine.ts";
import { chat, eventually, type Gateway, post, serve, startGateway, TINY, user } from "../test/harness.ts";

const IN_FLIGHT = 4;
const BOUNDS = { maxWaiting: 20, maxWaitingPerJob: 12, maxWaitingPerSession: 6 };
let engine: FakeEngine;
let gateway: Gateway;

beforeEach(async () => {
  engine = await FakeEngine.start();
  gateway = await startGateway({ maxInFlightPerEngine: IN_FLIGHT, ...BOUNDS });
  await serve(gateway, "e0", engine.url, TINY);
  engine.hold = true;
});
afterEach(async () => {
  await gateway.close();
  await engine.kill();
});

const metrics = async (): Promise<string> => (await fetch(`${gateway.httpUrl}/metrics`)).text();
/** Waits until the figure is so. */
const figure = (name: string, value: number): Promise<unknown> =>
  eventually(async () =>
    (await metrics())
      .split("\n")
      .some((line) => line.startsWith(`whetstone_gateway_${name}`) && line.endsWith(` ${value}`)),
  );
const waiting = (count: number): Promise<unknown> => figure("waiting{", count);

/** So many calls at once; they are answered when the engine goes on. */
function ask(session: string, count: number, order: string[] = []): Promise<number[]> {
  const calls = Array.from({ length: count }, async () => {
    const { status } = await chat(gateway, session, [user("x")]);
    if (status === 200) order.push(session);
    return status;
  });
  return Promise.all(calls);
}

const refusals = (statuses: readonly number[]): number => statuses.filter((status) => status === 429).length;

it("of one session waits up to its bound, and the polite one is served before it", async () => {
  const order: string[] = [];
  const rude = ask("rude", 30, order);
  await waiting(BOUNDS.maxWaitingPerSession);
  await figure('refused_total{bound="session"', 20);
  const polite = ask("polite", 2, order);
  await waiting(BOUNDS.maxWaitingPerSession + 2);
  engine.hold = false;
  engine.release();
  expect(refusals(await rude)).toBe(30 - IN_FLIGHT - BOUNDS.maxWaitingPerSession);
  expect(await polite).toEqual([200, 200]);
  // The engine had the first four of the rude one's; then the polite one's turn came.
  expect(order.slice(IN_FLIGHT, IN_FLIGHT + 2)).toEqual(["polite", "polite"]);
});

it("of one job's many sessions leaves room for other jobs, and for calls without a session", async () => {
  const sessions = Array.from({ length: 10 }, (_, i) => ask(`rude.g0.s${i}`, 3));
  await waiting(BOUNDS.maxWaitingPerJob);
  const others = [ask("polite.g0.s0", 2), ask("by-hand", 2)];
  await waiting(BOUNDS.maxWaitingPerJob + 4);
  engine.hold = false;
  engine.release();
  const statuses = (await Promise.all(sessions)).flat();
  expect(refusals(statuses)).toBe(30 - IN_FLIGHT - BOUNDS.maxWaitingPerJob);
  expect((await Promise.all(others)).flat()).toEqual([200, 200, 200, 200]);
  await figure('refused_total{bound="job"', 14);
});

it.each([
  ["/v1/chat/completions", { messages: [user("x")] }, { error: { type: "rate_limit_error", code: "queue_full" } }],
  ["/v1/responses", { input: "x" }, { error: { type: "rate_limit_error", code: "queue_full" } }],
  [
    "/v1/messages",
    { messages: [user("x")], max_tokens: 4 },
    { type: "error", error: { type: "rate_limit_error", message: "6 calls of this session wait already" } },
  ],
])("is told so in the form of %s, and when to come again", async (path, body, expected) => {
  const rude = ask("rude", IN_FLIGHT + BOUNDS.maxWaitingPerSession);
  await waiting(BOUNDS.maxWaitingPerSession);
  const refused = await post(gateway, `/s/rude${path}`, { model: "job", ...body });
  expect(refused).toMatchObject({ status: 429, body: expected });
  expect(refused.headers.get("retry-after")).toBe("1");
  engine.hold = false;
  engine.release();
  expect(refusals(await rude)).toBe(0);
});
