// SPDX-License-Identifier: Apache-2.0
// GET /load: what runs and waits, from the engines' own metrics.
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { FakeEngine } from "../test/fake-engine.ts";
import { chat, eventually, type Gateway, serve, startGateway, TINY, user } from "../test/harness.ts";

let engines: FakeEngine[];
let gateway: Gateway;

beforeEach(async () => {
  engines = [await FakeEngine.start(), await FakeEngine.start()];
  gateway = await startGateway({ maxInFlightPerEngine: 2, drainQuietMs: 50 });
});
afterEach(async () => {
  await gateway.close();
  await Promise.all(engines.map((engine) => engine.kill()));
});

const load = async (): Promise<Record<string, unknown>> =>
  (await (await fetch(`${gateway.httpUrl}/load`)).json()) as Record<string, unknown>;

describe("GET /load", () => {
  it("adds up what engines say and what waits here for them", async () => {
    for (const [i, engine] of engines.entries()) {
      engine.hold = true;
      engine.waiting = 3 + i;
      await serve(gateway, `e${i}`, engine.url, TINY);
    }
    const asked = Array.from({ length: 5 }, (_, i) => chat(gateway, `s${i}`, [user("x")], { max_tokens: 9 }));
    await eventually(() => engines.every(({ running }) => running === 2));
    const report = await load();
    expect(report).toMatchObject({ serving: 2, running: 4, waiting: 3 + 4 + 1, kv_use: 0.25 });
    expect(report["engines"]).toContainEqual({
      id: "e1",
      state: "serving",
      in_flight: 2,
      running: 2,
      waiting: 4,
      kv_use: 0.25,
    });
    for (const engine of engines) engine.release();
    await Promise.all(asked);
  });

  it("counts its own calls on an engine without metrics", async () => {
    const [engine] = engines as [FakeEngine];
    engine.hold = true;
    await serve(gateway, "e0", engine.url, TINY);
    const asked = chat(gateway, "s", [user("x")]);
    await eventually(() => engine.running === 1);
    expect(await load()).toMatchObject({ serving: 1, running: 1, waiting: 0, kv_use: null });
    engine.release();
    await asked;
  });

  it("says that nothing serves while engines are fenced, whatever waits", async () => {
    const [engine] = engines as [FakeEngine];
    engine.waiting = 9;
    await serve(gateway, "e0", engine.url, TINY);
    await gateway.fleet.fenceEngine({ id: "e0" });
    expect(await load()).toMatchObject({ serving: 0, running: 0, waiting: 0, kv_use: null });
  });

  it("asks engines once however many ask", async () => {
    const [engine] = engines as [FakeEngine];
    engine.waiting = 1;
    await serve(gateway, "e0", engine.url, TINY);
    expect(await load()).toMatchObject({ waiting: 1 });
    engine.waiting = 2;
    expect(await load()).toMatchObject({ waiting: 1 });
    await new Promise((resolve) => setTimeout(resolve, 550));
    expect(await load()).toMatchObject({ waiting: 2 });
  });
});
