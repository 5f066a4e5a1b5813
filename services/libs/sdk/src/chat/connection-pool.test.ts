// SPDX-License-Identifier: Apache-2.0
import { leanChat, type LeanAnswer, type LeanEngine, startLeanEngine } from "@whetstone/testkit";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { ConnectionPool } from "./connection-pool.ts";
import { exchange } from "./http-exchange.ts";

let server: LeanEngine;
let pool: ConnectionPool;
let answer: (body: string) => LeanAnswer;
const HANG: LeanAnswer = { fault: "hang" };
const FAULTS: Readonly<Record<string, LeanAnswer>> = { hang: HANG, cut: { fault: "drop" } };
const NEVER = new AbortController().signal;

beforeEach(async () => {
  answer = (body) => JSON.stringify({ body });
  server = await startLeanEngine({ latencyMs: 5, answer: ({ body }) => answer(body) });
  pool = new ConnectionPool(server.url, { connections: 3, maxWaiting: 10 });
});

afterEach(async () => {
  await pool.destroy();
  await server[Symbol.asyncDispose]();
});

async function ask(body: string, signal = NEVER): Promise<string> {
  const { body: answered } = await exchange(pool, { method: "POST", path: "/x", headers: {}, body, signal });
  return (JSON.parse(answered.toString()) as { body: string }).body;
}

const names = (count: number): string[] => Array.from({ length: count }, (_, i) => `r${i}`);

describe("a pool of connections", () => {
  it("opens no more than its limit and serves everybody", async () => {
    expect(await Promise.all(names(13).map((name) => ask(name)))).toEqual(names(13));
    expect(pool.connections).toBe(3);
  });

  it("opens only what is needed", async () => {
    for (const name of names(4)) await ask(name);
    expect(pool.connections).toBe(1);
  });

  it("refuses what it has no place for, and says what to do", async () => {
    const all = names(14).map((name) => ask(name));
    await expect(all.at(-1)).rejects.toThrow(/10 requests wait for one of 3 connections already: play fewer episodes/);
    expect(await Promise.all(all.slice(0, -1))).toHaveLength(13);
  });

  it("passes over who has left while waiting, at once", async () => {
    answer = () => HANG;
    const hanging = names(3).map((name) => ask(name).catch((error: unknown) => error));
    const leave = new AbortController();
    const left = ask("left", leave.signal);
    leave.abort(new Error("enough"));
    await expect(left).rejects.toThrow("enough");
    await pool.destroy();
    expect(await Promise.all(hanging)).toHaveLength(3);
    expect(server.requests).toBeLessThanOrEqual(3);
  });

  it("goes on after a connection that was cut or aborted", async () => {
    answer = (body) => FAULTS[body] ?? JSON.stringify({ body });
    const leave = new AbortController();
    const bad = [ask("cut"), ask("hang", leave.signal), ask("cut")].map((call) => call.catch(() => "failed"));
    const good = names(9).map((name) => ask(name));
    setTimeout(() => {
      leave.abort();
    }, 20);
    expect(await Promise.all([...bad, ...good])).toEqual(["failed", "failed", "failed", ...names(9)]);
    expect(await Promise.all(names(3).map((name) => ask(name)))).toEqual(names(3));
    expect(pool.connections).toBe(3);
  });

  it("ends what hangs when it is reset, and goes on with new connections", async () => {
    answer = (body) => FAULTS[body] ?? JSON.stringify({ body });
    const hanging = names(3).map(() => ask("hang").catch(() => "failed"));
    const waiting = names(4).map((name) => ask(name));
    pool.reset();
    expect(await Promise.all(hanging)).toEqual(["failed", "failed", "failed"]);
    expect(await Promise.all(waiting)).toEqual(names(4));
    expect(pool.connections).toBe(3);
  });

  it("refuses everything once closed", async () => {
    answer = () => HANG;
    const calls = names(5).map((name) => ask(name));
    await pool.destroy();
    for (const call of [...calls, ask("late")]) await expect(call).rejects.toThrow(/closed|destroyed|failed/);
  });

  it("reads an answer that comes in pieces", async () => {
    const long = leanChat("x".repeat(300_000));
    answer = () => long;
    const { body } = await exchange(pool, { method: "POST", path: "/x", headers: {}, body: "", signal: NEVER });
    expect(body.toString()).toBe(long);
  });
});
