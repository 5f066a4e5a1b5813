// SPDX-License-Identifier: Apache-2.0
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { adaptLimit, type EngineLoad, initialLimit, type LimitState, type LoadSample } from "./adaptive-limit.ts";

const settings = { floor: 8, ceiling: 400, targetWaiting: 2, targetKvUse: 0.95 };

const idle: EngineLoad = { serving: 1, running: 100, waiting: 0, kvUse: 0.5 };

function after(samples: Partial<LoadSample>[], from: LimitState = initialLimit(settings)): LimitState {
  const full = { playing: 400, queued: 50, engines: idle, environmentSlots: undefined };
  return samples.reduce((state, sample) => adaptLimit(state, { ...full, ...sample }, settings), from);
}

const times = (count: number, sample: Partial<LoadSample>): Partial<LoadSample>[] => Array(count).fill(sample);
const busy = { engines: { ...idle, waiting: 201 } };

describe("adaptLimit", () => {
  it("starts open and stays so while engines keep up", () => {
    expect(after(times(100, {}))).toMatchObject({ open: 400, reason: "none" });
    expect(after(times(100, { engines: { ...idle, waiting: 200, kvUse: 0.9 } })).open).toBe(400);
  });

  it("closes by a fifth when the queue is too long for three samples in a row", () => {
    expect(after(times(2, busy)).open).toBe(400);
    expect(after([...times(2, busy), {}, ...times(2, busy)]).open).toBe(400);
    expect(after(times(3, busy))).toMatchObject({ open: 320, reason: "engine_queue" });
    expect(after(times(6, busy)).open).toBe(256);
    expect(after(times(3, { ...busy, playing: 100 })).open).toBe(80);
  });

  it("closes when the cache is full and requests wait for it, not when it is merely used", () => {
    expect(after(times(3, { engines: { ...idle, kvUse: 0.97 } })).open).toBe(400);
    expect(after(times(3, { engines: { ...idle, kvUse: 0.97, waiting: 11 } }))).toMatchObject({
      open: 320,
      reason: "engine_cache",
    });
  });

  it("opens again step by step while slots are wanted", () => {
    const closed = after(times(6, busy));
    expect(after(times(1, {}), closed)).toMatchObject({ open: 276, reason: "engine_queue" });
    expect(after(times(10, {}), closed)).toMatchObject({ open: 400, reason: "none" });
    expect(after(times(10, { queued: 0 }), closed).open).toBe(256);
    expect(after(times(10, { engines: { ...idle, waiting: 150 } }), closed).open).toBe(256);
  });

  it("does nothing while weights are switched or the load is unknown", () => {
    const away = { engines: { serving: 0, running: 0, waiting: 5000, kvUse: undefined } };
    expect(after(times(50, away)).open).toBe(400);
    expect(after(times(50, { engines: undefined }), after(times(3, busy))).open).toBe(320);
  });

  it("never throttles for a short queue behind a small batch", () => {
    expect(after(times(50, { engines: { serving: 2, running: 1, waiting: 64, kvUse: 0.1 } })).open).toBe(400);
  });

  it("opens no more than the environment has slots, and one at least", () => {
    expect(after([{ environmentSlots: 30 }])).toMatchObject({ open: 30, reason: "environment_slots" });
    expect(after([{ environmentSlots: 30 }, { environmentSlots: 400 }])).toMatchObject({ open: 400, reason: "none" });
    expect(after([{ environmentSlots: 0 }]).open).toBe(1);
  });

  it("stays between floor and ceiling whatever it is told", () => {
    const load = fc.record({
      serving: fc.integer({ min: 0, max: 8 }),
      running: fc.integer({ min: 0, max: 5000 }),
      waiting: fc.integer({ min: 0, max: 50_000 }),
      kvUse: fc.option(fc.double({ min: 0, max: 1, noNaN: true }), { nil: undefined }),
    });
    const sample = fc.record({
      playing: fc.nat(400),
      queued: fc.nat(100),
      engines: fc.option(load, { nil: undefined }),
    });
    fc.assert(
      fc.property(fc.array(sample, { maxLength: 100 }), (samples) => {
        const { open } = after(samples);
        expect(open).toBeGreaterThanOrEqual(settings.floor);
        expect(open).toBeLessThanOrEqual(settings.ceiling);
      }),
    );
  });

  it("finds the load that an engine carries and stays near it", () => {
    // An engine that runs 64 requests; every episode always has one.
    let state = initialLimit(settings);
    const seen: number[] = [];
    for (let i = 0; i < 300; i += 1) {
      const playing = state.open;
      const engines = { serving: 1, running: Math.min(64, playing), waiting: Math.max(0, playing - 64), kvUse: 0.3 };
      state = adaptLimit(state, { playing, queued: 100, engines, environmentSlots: undefined }, settings);
      if (i > 50) seen.push(state.open);
    }
    expect(Math.min(...seen)).toBeGreaterThan(64 + 32);
    expect(Math.max(...seen)).toBeLessThanOrEqual(64 * 3 + 20);
  });
});
