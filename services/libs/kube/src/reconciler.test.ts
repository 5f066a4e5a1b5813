// SPDX-License-Identifier: Apache-2.0
import { createMetrics, silentLogger } from "@whetstone/telemetry";
import { WhetstoneError } from "@whetstone/core";
import { afterEach, describe, expect, it, vi } from "vitest";
import { type Reconciler, type ReconcilerOptions, runReconciler } from "./reconciler.ts";

let reconciler: Reconciler | undefined;
afterEach(() => reconciler?.close());

function start(options: Partial<ReconcilerOptions> & Pick<ReconcilerOptions, "reconcile">): Reconciler {
  reconciler = runReconciler({ name: "test", logger: silentLogger, retry: { random: () => 1 }, ...options });
  return reconciler;
}

const eventually = (check: () => void): Promise<void> => vi.waitFor(check, { timeout: 30_000, interval: 5 });

describe("reconciler", () => {
  it("works on many keys at once, on one key never twice at once, and loses no change", async () => {
    const wanted = new Map<string, number>();
    const done = new Map<string, number>();
    const running = new Set<string>();
    let most = 0;
    const { enqueue } = boundTo(
      start({
        concurrency: 8,
        reconcile: async (key) => {
          expect(running.has(key)).toBe(false);
          running.add(key);
          most = Math.max(most, running.size);
          const seen = wanted.get(key) ?? 0;
          await new Promise((resolve) => setTimeout(resolve, Math.random() * 4));
          done.set(key, seen);
          running.delete(key);
        },
      }),
    );
    for (let round = 1; round <= 30; round++) {
      for (let k = 0; k < 20; k++) {
        wanted.set(`k${k}`, round);
        enqueue(`k${k}`);
      }
      await new Promise((resolve) => setTimeout(resolve, 3));
    }
    await eventually(() => expect([...done.values()]).toEqual(Array.from({ length: 20 }, () => 30)));
    expect(most).toBe(8);
  });

  it("brings a key that failed back, later each time, until it succeeds", async () => {
    const at: number[] = [];
    start({
      reconcile: async () => {
        at.push(performance.now());
        if (at.length < 6) throw new WhetstoneError("CONFLICT", "stale");
      },
    }).enqueue("a");
    await eventually(() => expect(at).toHaveLength(6));
    const gaps = at.slice(1).map((time, i) => time - (at[i] ?? 0));
    [5, 10, 20, 40, 80].forEach((wait, i) => expect(gaps[i]).toBeGreaterThan(wait * 0.8));
  });

  it("forgets a key's failures once it succeeded", async () => {
    const at: number[] = [];
    const fails = [true, true, true, true, true, true, false, true, false];
    const loop = start({
      reconcile: async () => {
        const fail = fails[at.length];
        at.push(performance.now());
        if (fail) throw new Error("once more");
      },
    });
    loop.enqueue("a");
    await eventually(() => expect(at).toHaveLength(7));
    loop.enqueue("a");
    await eventually(() => expect(at).toHaveLength(9));
    // 5 ms again, not the 320 ms that would have come next.
    expect((at[8] ?? 0) - (at[7] ?? 0)).toBeLessThan(200);
  });

  it("a throw that is no promise's, and a work that hangs, cost only their own key's turn", async () => {
    const seen: string[] = [];
    const loop = start({
      concurrency: 1,
      timeoutMs: 50,
      reconcile: (key) => {
        seen.push(key);
        if (key === "throws" && seen.length === 1) throw new Error("at once");
        return key === "hangs" ? new Promise(() => undefined) : Promise.resolve();
      },
    });
    for (const key of ["throws", "hangs", "good"]) loop.enqueue(key);
    await eventually(() => expect(seen).toContain("good"));
    await eventually(() => expect(seen.filter((key) => key === "throws")).toHaveLength(2));
  });

  it("comes back when the work asks for it", async () => {
    let count = 0;
    start({ reconcile: async () => (++count < 3 ? { requeueAfterMs: 10 } : {}) }).enqueue("a");
    await eventually(() => expect(count).toBe(3));
  });

  it("close aborts what runs and waits for it", async () => {
    let ended = false;
    const loop = start({
      reconcile: (_key, signal) =>
        new Promise((_resolve, reject) => {
          signal.addEventListener("abort", () => {
            ended = true;
            reject(signal.reason as Error);
          });
        }),
    });
    loop.enqueue("a");
    await new Promise((resolve) => setTimeout(resolve, 10));
    await loop.close();
    expect(ended).toBe(true);
    loop.enqueue("b");
    expect(loop.depth).toBe(0);
  });

  it("counts its runs and their time", async () => {
    const metrics = createMetrics({ component: "test", processMetrics: false });
    let failed = false;
    start({
      metrics,
      reconcile: async () => {
        if (!failed) throw ((failed = true), new Error("once"));
      },
    }).enqueue("a");
    await vi.waitFor(async () => {
      const text = await metrics.render();
      expect(text).toMatch(/reconcile_seconds_count\{[^}]*result="failed"[^}]*\} 1/);
      expect(text).toMatch(/reconcile_seconds_count\{[^}]*result="done"[^}]*\} 1/);
    }, 30_000);
  });
});

function boundTo(loop: Reconciler): Pick<Reconciler, "enqueue"> {
  return { enqueue: (key) => loop.enqueue(key) };
}
