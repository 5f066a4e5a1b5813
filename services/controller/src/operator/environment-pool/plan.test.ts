// SPDX-License-Identifier: Apache-2.0
import { describe, expect, it } from "vitest";
import { planPool, type PoolFacts, type RunnerPod } from "./plan.ts";

const NOW = 1_000_000;
const DESIRED_POOL = { replicas: 2, template: "t1", drainMs: 60_000 };

const pod = (ordinal: number, more: Partial<RunnerPod> = {}): RunnerPod => ({
  name: `p-${ordinal}`,
  uid: `u${ordinal}`,
  ip: `10.0.0.${ordinal}`,
  ordinal,
  template: "t1",
  createdAt: ordinal,
  ready: true,
  ended: false,
  terminating: false,
  drainingSince: undefined,
  slots: 4,
  sessions: 0,
  trouble: "",
  safeToEvict: true,
  ...more,
});

function plan(replicas: number, pods: RunnerPod[], more: Partial<PoolFacts> = {}) {
  const { create, drain, undrain, remove } = planPool(
    { ...DESIRED_POOL, replicas },
    { pods, empty: new Set(), taken: new Set(), now: NOW, ...more },
  );
  const ordinals = (list: readonly RunnerPod[]): number[] => list.map(({ ordinal }) => ordinal).sort((a, b) => a - b);
  return { create, drain: ordinals(drain), undrain: ordinals(undrain), remove: ordinals(remove) };
}

const NOTHING = { create: [], drain: [], undrain: [], remove: [] };
const since = (ms: number): Partial<RunnerPod> => ({ drainingSince: NOW - ms });

describe("a pool", () => {
  it("makes what is missing, by the lowest names that are free", () => {
    expect(plan(3, [])).toEqual({ ...NOTHING, create: [0, 1, 2] });
    expect(plan(3, [pod(1), pod(4, { terminating: true })], { taken: new Set([0]) })).toEqual({
      ...NOTHING,
      create: [2, 3],
    });
    expect(plan(2, [pod(0), pod(1, { ready: false })])).toEqual(NOTHING);
  });

  it("replaces what has ended or is being deleted", () => {
    expect(plan(2, [pod(0), pod(1, { ended: true })])).toEqual({ ...NOTHING, remove: [1], create: [2] });
    expect(plan(2, [pod(0), pod(1, { terminating: true, sessions: 9 })])).toEqual({ ...NOTHING, create: [2] });
  });

  it.each([
    ["one that is not ready first", [pod(0), pod(1, { sessions: 3 }), pod(2, { ready: false, sessions: 5 })], [2]],
    ["then an idle one", [pod(0, { sessions: 1 }), pod(1), pod(2, { sessions: 1 })], [1]],
    [
      "then the one with the fewest sessions",
      [pod(0, { sessions: 4 }), pod(1, { sessions: 2 }), pod(2, { sessions: 3 })],
      [1],
    ],
    ["then the newest", [pod(0), pod(1, { createdAt: 99 }), pod(2)], [1]],
  ])("sends away %s", (...[, pods, drain]) => {
    expect(plan(2, pods)).toEqual({ ...NOTHING, drain });
  });

  it("deletes a pod only when nothing is open there, or its time is over", () => {
    const leaving = pod(2, { ...since(10_000), sessions: 3 });
    expect(plan(2, [pod(0), pod(1), leaving])).toEqual(NOTHING);
    expect(plan(2, [pod(0), pod(1), leaving], { empty: new Set(["u2"]) })).toEqual({ ...NOTHING, remove: [2] });
    expect(plan(2, [pod(0), pod(1), pod(2, since(76_000))])).toEqual({ ...NOTHING, remove: [2] });
    expect(plan(0, [pod(0, { ip: "", ready: false })])).toEqual({ ...NOTHING, drain: [0], remove: [0] });
  });

  it("takes back what drains before it makes new ones, the busiest first", () => {
    const leaving = [pod(1, { ...since(1_000), sessions: 1 }), pod(2, { ...since(1_000), sessions: 7 })];
    expect(plan(2, [pod(0), ...leaving])).toEqual({ ...NOTHING, undrain: [2] });
    expect(plan(4, [pod(0), ...leaving])).toEqual({ ...NOTHING, undrain: [1, 2], create: [3] });
    expect(plan(2, [pod(0), pod(1, { ...since(50_000), sessions: 7 })])).toEqual({ ...NOTHING, create: [2] });
    expect(plan(2, [pod(0), pod(1, { ...since(50_000), template: "t0" })])).toEqual({ ...NOTHING, create: [2] });
  });

  it("scales to zero and back", () => {
    expect(plan(0, [pod(0), pod(1, { sessions: 2 })])).toEqual({ ...NOTHING, drain: [0, 1] });
    expect(plan(0, [])).toEqual(NOTHING);
    expect(plan(1, [])).toEqual({ ...NOTHING, create: [0] });
  });

  it("changes its template by a few at a time, never with fewer ready than wanted", () => {
    let pods = Array.from({ length: 4 }, (_, i) => pod(i, { template: "t0" }));
    let fewest = 4;
    for (let round = 0; round < 30; round += 1) {
      const { create, drain, remove } = planPool(
        { ...DESIRED_POOL, replicas: 4 },
        { pods, empty: new Set(pods.flatMap((p) => (p.drainingSince ? [p.uid] : []))), taken: new Set(), now: NOW },
      );
      pods = pods
        .filter((p) => !remove.includes(p))
        .map((p) => (drain.includes(p) ? { ...p, drainingSince: NOW - 1 } : { ...p, ready: true }));
      for (const ordinal of create) pods.push(pod(ordinal, { uid: `n${round}-${ordinal}`, ready: false }));
      const ready = pods.filter((p) => p.ready && p.drainingSince === undefined).length;
      fewest = Math.min(fewest, ready);
      expect(pods.filter((p) => p.drainingSince === undefined).length).toBeLessThanOrEqual(5);
    }
    expect(fewest).toBe(4);
    expect(pods.map(({ template }) => template)).toEqual(["t1", "t1", "t1", "t1"]);
  });

  it("settles from any mixture of pods, with never more than are wanted and a few", () => {
    for (let seed = 0; seed < 300; seed += 1) {
      const bit = (n: number): boolean => ((seed * 2654435761) >>> n) % 2 === 1;
      let pods = Array.from({ length: 6 }, (_, i) =>
        pod(i, {
          ready: bit(i),
          ended: bit(i + 6) && bit(i + 7),
          ...(bit(i + 12) ? since(5_000) : {}),
          template: bit(i + 9) ? "t0" : "t1",
        }),
      );
      for (let round = 0; round < 40; round += 1) {
        const { create, drain, undrain, remove } = planPool(
          { ...DESIRED_POOL, replicas: seed % 5 },
          { pods, empty: new Set(pods.flatMap((p) => (p.drainingSince ? [p.uid] : []))), taken: new Set(), now: NOW },
        );
        pods = pods
          .filter((p) => !remove.includes(p))
          .map((p) => ({
            ...p,
            ready: true,
            drainingSince: drain.includes(p) ? NOW - 1 : undrain.includes(p) ? undefined : p.drainingSince,
          }));
        for (const ordinal of create) pods.push(pod(ordinal, { uid: `n${round}-${ordinal}`, ready: false }));
      }
      expect(pods.map(({ template, drainingSince }) => [template, drainingSince])).toEqual(
        Array.from({ length: seed % 5 }, () => ["t1", undefined]),
      );
    }
  });
});
