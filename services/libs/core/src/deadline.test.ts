// SPDX-License-Identifier: Apache-2.0
import { execFileSync } from "node:child_process";
import { describe, expect, it } from "vitest";
import { Deadline, raceSignal, sleep, WhetstoneError, withTimeout } from "./index.ts";

describe("Deadline", () => {
  it("expires with DEADLINE_EXCEEDED", async () => {
    using deadline = Deadline.after(20);
    await expect(sleep(5_000, deadline.signal)).rejects.toMatchObject({ code: "DEADLINE_EXCEEDED" });
    expect(deadline.remainingMs()).toBe(0);
  });

  it("combines: a child ends no later than its parent", async () => {
    using parent = Deadline.after(30);
    using long = Deadline.after(60_000, parent);
    expect(long.remainingMs()).toBeLessThanOrEqual(30);
    await expect(sleep(5_000, long.signal)).rejects.toMatchObject({ code: "DEADLINE_EXCEEDED" });
  });

  it("combines: an early child leaves its parent alone", async () => {
    using parent = Deadline.after(60_000);
    using short = Deadline.after(5, parent);
    await expect(sleep(5_000, short.signal)).rejects.toBeInstanceOf(WhetstoneError);
    expect(parent.signal.aborted).toBe(false);
  });

  it("passes the parent's reason on, also one that came before", () => {
    const controller = new AbortController();
    using child = Deadline.after(60_000, controller.signal);
    const reason = new WhetstoneError("CANCELLED", "user left");
    controller.abort(reason);
    expect(child.signal.reason).toBe(reason);
    using late = Deadline.after(60_000, controller.signal);
    expect(late.signal.reason).toBe(reason);
    expect(() => {
      late.throwIfExpired();
    }).toThrow("user left");
  });

  it("does nothing after dispose", async () => {
    const deadline = Deadline.after(5);
    deadline[Symbol.dispose]();
    await sleep(20);
    expect(deadline.signal.aborted).toBe(false);
  });

  it("takes times beyond a timer's range, and Infinity", async () => {
    using year = Deadline.after(365 * 24 * 3_600_000);
    using forever = Deadline.after(Number.POSITIVE_INFINITY);
    await sleep(20);
    expect([year.signal.aborted, forever.signal.aborted]).toEqual([false, false]);
  });

  it("keeps no process alive", () => {
    const entry = JSON.stringify(new URL("./index.ts", import.meta.url).href);
    const script = `import { Deadline } from ${entry}; Deadline.after(60_000);`;
    execFileSync(process.execPath, ["--input-type=module", "-e", script], { timeout: 30_000 });
  });
});

describe("withTimeout and raceSignal", () => {
  it("rejects in time although the work does not listen", async () => {
    const work = withTimeout(() => new Promise(() => undefined), { timeoutMs: 20 });
    await expect(work).rejects.toMatchObject({ code: "DEADLINE_EXCEEDED" });
  });

  it("leaves no rejection unhandled when the work fails after the signal", async () => {
    const controller = new AbortController();
    const work = sleep(10).then(() => Promise.reject(new Error("late")));
    const raced = raceSignal(work, controller.signal);
    controller.abort(new WhetstoneError("CANCELLED", "first"));
    await expect(raced).rejects.toThrow("first");
    await sleep(20);
  });
});
