// SPDX-License-Identifier: Apache-2.0
// H1: whatever becomes of what two replicas say to each other, one of them has the session, or none; never both.
import { afterEach, beforeEach, expect, it } from "vitest";
import { FakeEngine } from "../../test/fake-engine.ts";
import { calls, chat, eventually, type Gateway, post, serve, TINY, user } from "../../test/harness.ts";
import { type Fate, ownersOf, startReplicas, startWay } from "../../test/replicas.ts";

let engine: FakeEngine;
let stack: AsyncDisposableStack;

beforeEach(async () => {
  stack = new AsyncDisposableStack();
  engine = stack.use(await FakeEngine.start());
});
afterEach(() => stack.disposeAsync());

/** Two or three gateways; the first reaches the second by a way with these faults, and the third, if any, directly. */
async function replicas(count: number, fateOf: (path: string) => Fate, drainMs = 4_000): Promise<Gateway[]> {
  const gateways: Gateway[] = [];
  const way = stack.use(await startWay(() => gateways[1]?.httpUrl ?? "", fateOf));
  const urls = (all: readonly string[], index: number): readonly string[] =>
    index === 0 ? [way.url, ...all.slice(2)] : all;
  gateways.push(...(await startReplicas(count, { drainMs }, urls)));
  for (const gateway of gateways) {
    stack.use(gateway);
    await serve(gateway, "e0", engine.url, TINY);
  }
  return gateways;
}

const isHold = (path: string): boolean => /^\/handover\/[^/]+$/.test(path);
const isOwn = (path: string): boolean => path.endsWith("/own");

/** Sessions enough that each other replica is asked first for some. */
const NAMES = ["a", "b", "c", "d", "e", "f"];

async function begin(gateway: Gateway): Promise<void> {
  for (const name of NAMES) expect((await chat(gateway, name, [user("hi")])).status).toBe(200);
}

const allOwners = (gateways: readonly Gateway[]): Promise<number[][]> =>
  Promise.all(NAMES.map((name) => ownersOf(name, gateways)));

/** Each of them goes on where it is now: its second call continues the first. */
async function goOn(gateway: Gateway, name: string): Promise<void> {
  const [first] = (await calls(gateway, name)).calls;
  const messages = [user("hi"), { role: "assistant", content: first?.text ?? "" }, user("more")];
  const options = { headers: { "x-whetstone-begun": "true" } };
  expect((await chat(gateway, name, messages, {}, options)).status).toBe(200);
  expect((await calls(gateway, name)).calls.map(({ parentId }) => parentId)).toEqual(["", "c0"]);
}

it("a replica that refuses, or does not answer, is passed over for another one", async () => {
  for (const fate of ["refuse", "cut", "hang"] as const) {
    // A hang is given up within five seconds.
    const [old, , third] = (await replicas(3, (path) => (isHold(path) ? fate : "pass"), 20_000)) as [
      Gateway,
      Gateway,
      Gateway,
    ];
    await begin(old);
    await old.leave();
    expect(await allOwners([third]), fate).toEqual(NAMES.map(() => [0]));
    for (const name of NAMES) await goOn(third, name);
  }
}, 60_000);

it("where nobody takes it, it stays, and is answered, until the time is over", async () => {
  const [old, peer] = (await replicas(2, () => "refuse", 1_500)) as [Gateway, Gateway];
  await begin(old);
  const left = old.leave();
  await new Promise((resolve) => setTimeout(resolve, 700));
  expect(await allOwners([old, peer])).toEqual(NAMES.map(() => [0]));
  await goOn(old, "a");
  await left;
  expect((await allOwners([peer])).flat()).toEqual([]);
});

it("one whose first acknowledgement is lost stays, and goes at the next try; the copy that was held is dropped", async () => {
  let cut = 0;
  const [old, peer] = (await replicas(2, (path) => (isHold(path) && cut++ < NAMES.length ? "cut" : "pass"))) as [
    Gateway,
    Gateway,
  ];
  await begin(old);
  await old.leave();
  expect(cut).toBeGreaterThan(NAMES.length);
  expect(await allOwners([peer])).toEqual(NAMES.map(() => [0]));
  for (const name of NAMES) await goOn(peer, name);
});

it("one whose second acknowledgement is lost is at the new one alone: the step is repeated, and changes nothing", async () => {
  const seen = new Map<string, number>();
  const cutTwice = (path: string): Fate => {
    if (!isOwn(path)) return "pass";
    seen.set(path, (seen.get(path) ?? 0) + 1);
    return (seen.get(path) ?? 0) < 3 ? "cut" : "pass";
  };
  const [old, peer] = (await replicas(2, cutTwice)) as [Gateway, Gateway];
  await begin(old);
  // With a key at one of them the old one is there until its time is over.
  await old.openKey("a");
  const left = old.leave();
  await eventually(async () => (await allOwners([peer])).flat().length === NAMES.length);
  expect((await allOwners([old])).flat()).toEqual([]);
  // While the old one does not know, its callers wait; then they are led to the new one.
  await goOn(old, "a");
  await eventually(async () => {
    const text = await (await fetch(`${old.httpUrl}/metrics`)).text();
    return /gateway_handovers_total\{[^}]*"moved"[^}]*\} 6/.test(text);
  });
  await left;
  expect([...seen.values()]).toEqual(NAMES.map(() => 3));
  expect(await allOwners([peer])).toEqual(NAMES.map(() => [0]));
});

it("one whose second step never arrives is nobody's: it is not begun anew, and does not come back", async () => {
  const [old, peer] = (await replicas(2, (path) => (isOwn(path) ? "refuse" : "pass"), 1_500)) as [Gateway, Gateway];
  await begin(old);
  const left = old.leave();
  await eventually(async () => (await allOwners([old])).flat().length === 0);
  expect((await allOwners([peer])).flat()).toEqual([]);
  await left;
  const again = await post(
    peer,
    "/s/a/v1/chat/completions",
    { model: "job", messages: [user("hi")] },
    { headers: { "x-whetstone-begun": "true" } },
  );
  expect(again).toMatchObject({ status: 404, body: { error: { code: "session_not_here" } } });
});

it("a replica that was given no such policy, leaves too, or is of another release refuses", async () => {
  const [old, peer] = (await replicas(2, () => "pass", 1_000)) as [Gateway, Gateway];
  await begin(old);
  await peer.fleet.forgetPolicy({ policy: "job" });
  await old.leave();
  expect((await allOwners([peer])).flat()).toEqual([]);
  const state = { form: 1, name: "n", policies: [], lastEngineId: "", maxVersion: "-1", nextIndex: 0 };
  const none = { calls: [], tree: [], earlier: [], kept: [] };
  const hold = (body: object, id = "x") => post(peer, `/handover/${id}`, body);
  expect(await hold({ ...state, ...none, form: 2 })).toMatchObject({
    status: 409,
    body: { error: { code: "other_release", param: "form" } },
  });
  expect(await hold({ ...state, ...none, nextIndex: -1 })).toMatchObject({
    status: 400,
    body: { error: { param: "nextIndex" } },
  });
  expect(await hold({ ...state, ...none, tree: [{ parent: 0, key: "", answers: [] }] })).toMatchObject({
    status: 400,
    body: { error: { param: "tree.0.parent" } },
  });
  expect(await post(peer, "/handover/unknown/own", {})).toMatchObject({ status: 404 });
  expect((await hold({ ...state, ...none })).status).toBe(200);
  await peer.openKey("own");
  const left = peer.leave();
  expect(await hold({ ...state, ...none, name: "m" }, "y")).toMatchObject({
    status: 503,
    body: { error: { code: "gateway_leaving" } },
  });
  await left;
});
