// SPDX-License-Identifier: Apache-2.0
import { describe, expect, it } from "vitest";
import { type Runner, RunnerSet } from "./runner-set.ts";

const runner = (id: string, more: Partial<Runner> = {}): Runner => ({
  id,
  address: `${id}:9081`,
  slots: 4,
  draining: false,
  ...more,
});

function setOf(...runners: Runner[]) {
  const limits: number[] = [];
  const set = new RunnerSet((limit) => limits.push(limit));
  set.update(runners);
  return { set, limits };
}

const firstOf = (set: RunnerSet): string | undefined => set.lease()?.addresses[0];

describe("the runners of a pool", () => {
  it("take turns, the least loaded first", () => {
    const { set } = setOf(runner("a"), runner("b"), runner("c", { slots: 8 }));
    const seen = Array.from({ length: 16 }, () => firstOf(set));
    expect(seen.filter((address) => address === "a:9081")).toHaveLength(4);
    expect(seen.filter((address) => address === "b:9081")).toHaveLength(4);
    expect(seen.filter((address) => address === "c:9081")).toHaveLength(8);
  });

  it("that drain or are gone get nothing new, and what is open there takes no place elsewhere", () => {
    const { set, limits } = setOf(runner("a"), runner("b"));
    const lease = set.lease();
    const first = lease?.addresses[0] === "a:9081" ? "a" : "b";
    const other = first === "a" ? "b" : "a";
    set.update([runner(first, { draining: true }), runner(other)]);
    expect(set.lease()?.addresses).toEqual([`${other}:9081`]);
    expect(set.limit).toBe(4 + 1);
    set.update([runner(other)]);
    expect(set.limit).toBe(4 + 1);
    lease?.[Symbol.dispose]();
    lease?.[Symbol.dispose]();
    expect(set.limit).toBe(4);
    expect(limits).toEqual([8, 5, 4]);
  });

  it("leave to others what they have, until these are not heard of any more", () => {
    const { set } = setOf(runner("a"), runner("b"));
    set.report("other", new Map([["a", 3]]), 0);
    expect(set.limit).toBe(5);
    expect([firstOf(set), firstOf(set), firstOf(set)]).toEqual(["b:9081", "b:9081", "b:9081"]);
    set.report("other", new Map([["a", 1]]), 1_000);
    expect(set.limit).toBe(7);
    set.report("third", new Map(), 20_000);
    expect(set.limit).toBe(8);
  });

  it("give no place when there are none", () => {
    const { set } = setOf();
    expect([set.isOpen, set.limit, set.lease()]).toEqual([false, 0, undefined]);
    set.update([runner("a", { draining: true })]);
    expect([set.isOpen, set.limit, set.lease()]).toEqual([false, 0, undefined]);
  });

  it("offer a few others for the case that the first refuses", () => {
    const { set } = setOf(...Array.from({ length: 5_000 }, (_, i) => runner(`r${i}`, { slots: 1 })));
    const addresses = set.lease()?.addresses ?? [];
    expect(new Set(addresses).size).toBe(4);
    const before = process.cpuUsage();
    for (let i = 0; i < 4_999; i += 1) set.lease();
    expect([...set.ours.values()].every((count) => count === 1)).toBe(true);
    expect(process.cpuUsage(before).user).toBeLessThan(4_000_000); // µs of CPU: the machine may be busy.
  });
});
