// SPDX-License-Identifier: Apache-2.0
import { WhetstoneError } from "@whetstone/core";
import { silentLogger } from "@whetstone/telemetry";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { FakeClock, settle } from "../test-support/fake-clock.ts";
import { elect } from "./election.ts";
import type { Leadership } from "./leadership.ts";
import { type Kube, openKube } from "./kube.ts";
import type { HeldRecord, LeaseLock, LeaseRecord } from "./lease-lock.ts";

/** One Lease that several processes see; each may be cut off from it. */
class MemoryLock {
  record: HeldRecord | undefined;
  writes = 0;
  readonly cut = new Set<string>();

  of(identity: string): LeaseLock {
    return {
      read: async () => {
        this.#reach(identity);
        return this.record;
      },
      create: async (record) => this.#write(identity, record, undefined),
      change: async (record, version) => this.#write(identity, record, version),
    };
  }

  #write(identity: string, record: LeaseRecord, version: string | undefined): HeldRecord {
    this.#reach(identity);
    if (this.record?.version !== version) throw new WhetstoneError("CONFLICT", "the lease has changed");
    this.writes++;
    return (this.record = { ...record, version: String(this.writes) });
  }

  #reach(identity: string): void {
    if (this.cut.has(identity)) throw new WhetstoneError("UNAVAILABLE", "no connection");
  }
}

class Candidate {
  readonly clock: FakeClock;
  readonly stop = new AbortController();
  readonly done: Promise<void>;
  lead: Leadership | undefined;
  /** How long its work takes to end. */
  lingersMs = 0;
  outcome = "campaigning";

  constructor(name: string, lock: MemoryLock, clock: FakeClock) {
    this.clock = clock;
    this.done = elect({
      kube,
      lease: "l",
      identity: name,
      signal: this.stop.signal,
      clock,
      logger: silentLogger,
      lock: lock.of(name),
      onLead: async (lead) => {
        this.lead = lead;
        this.outcome = "leading";
        await new Promise((resolve) => lead.signal.addEventListener("abort", resolve));
        if (this.lingersMs > 0) await clock.sleep(this.lingersMs);
      },
    }).then(
      () => void (this.outcome = "stopped"),
      (error: unknown) => void (this.outcome = WhetstoneError.from(error).code),
    );
  }
}

let kube: Kube;
let lock: MemoryLock;
let candidates: Candidate[];
beforeEach(() => {
  kube = openKube({ logger: silentLogger, server: "http://127.0.0.1:9", namespace: "ns" });
  lock = new MemoryLock();
  candidates = [];
});
afterEach(async () => {
  for (const { stop } of candidates) stop.abort();
  await settle();
});

function campaign(name: string, clock = new FakeClock()): Candidate {
  const candidate = new Candidate(name, lock, clock);
  candidates.push(candidate);
  return candidate;
}

describe("election", () => {
  it("elects one of two, and keeps it as long as it renews", async () => {
    const clock = new FakeClock();
    const [a, b] = [campaign("a", clock), campaign("b", clock)];
    await clock.pass(60_000);
    expect([a.outcome, b.outcome].toSorted()).toEqual(["campaigning", "leading"]);
    expect(lock.record?.transitions).toBe(0);
    expect(lock.writes).toBeGreaterThanOrEqual(29);
    expect(lock.writes).toBeLessThanOrEqual(33);
  });

  it("hands over at once when the leader stops, after its work has ended", async () => {
    const clock = new FakeClock();
    const a = campaign("a", clock);
    await clock.pass(1000);
    const b = campaign("b", clock);
    await clock.pass(1000);
    expect([a.outcome, b.outcome]).toEqual(["leading", "campaigning"]);
    a.stop.abort();
    await clock.pass(1500);
    expect([a.outcome, b.outcome]).toEqual(["stopped", "leading"]);
    expect(lock.record?.transitions).toBe(1);
  });

  it("a leader that cannot renew gives up before another may take over, and says so", async () => {
    const clock = new FakeClock();
    const a = campaign("a", clock);
    await clock.pass(1000);
    const b = campaign("b", clock);
    await clock.pass(3000);
    lock.cut.add("a");
    const cutAt = clock.monotonicMs();
    let lostAt = 0;
    a.lead?.signal.addEventListener("abort", () => (lostAt = clock.monotonicMs()));
    await clock.pass(11_000);
    expect(a.outcome).toBe("STALE_EPOCH");
    expect(b.outcome).toBe("campaigning");
    expect(lostAt - cutAt).toBeLessThanOrEqual(10_050);
    expect(() => a.lead?.assert()).toThrow(/leads no longer/);
    await clock.pass(6500);
    expect(b.outcome).toBe("leading");
  });

  it("survives an API server that is away for less than the renew deadline", async () => {
    const clock = new FakeClock();
    const a = campaign("a", clock);
    await clock.pass(5000);
    lock.cut.add("a");
    await clock.pass(7000);
    lock.cut.delete("a");
    await clock.pass(20_000);
    expect(a.outcome).toBe("leading");
  });

  it("after a pause the old leader is the first to know: assert throws before anything else has run", async () => {
    const [a, b] = [campaign("a"), undefined];
    expect(b).toBeUndefined();
    await a.clock.pass(3000);
    expect(() => a.lead?.assert()).not.toThrow();
    a.clock.pause(60_000);
    expect(() => a.lead?.assert()).toThrow(/not renewed in time/);
    expect(a.lead?.signal.aborted).toBe(true);
    const before = lock.writes;
    await a.clock.pass(5000);
    expect(a.outcome).toBe("STALE_EPOCH");
    expect(lock.writes).toBe(before);
  });

  it("a leader whose main loop stands still for less than the renew deadline keeps its lease", async () => {
    const a = campaign("a");
    await a.clock.pass(3000);
    a.clock.pause(7_000);
    expect(() => a.lead?.assert()).not.toThrow();
    await a.clock.pass(20_000);
    expect([a.outcome, lock.record?.transitions]).toEqual(["leading", 0]);
  });

  it("a paused leader renews nothing although nobody took the lease meanwhile", async () => {
    const a = campaign("a");
    await a.clock.pass(3000);
    const before = lock.writes;
    a.clock.pause(12_000);
    await a.clock.pass(10_000);
    expect(a.outcome).toBe("STALE_EPOCH");
    expect(lock.writes).toBe(before);
  });

  it("a leader whose lease was taken leaves at its next renewal", async () => {
    const a = campaign("a");
    await a.clock.pass(3000);
    lock.record = { ...(lock.record as HeldRecord), holder: "thief", version: "stolen" };
    await a.clock.pass(4500);
    expect(a.outcome).toBe("STALE_EPOCH");
    expect(lock.record.holder).toBe("thief");
  });

  it("a lease that is deleted is made again by the next leader, when it would have run out", async () => {
    const clock = new FakeClock();
    const a = campaign("a", clock);
    await clock.pass(3000);
    const b = campaign("b", clock);
    await clock.pass(3000);
    lock.record = undefined;
    await clock.pass(9000);
    expect(lock.record).toBeUndefined();
    await clock.pass(3000);
    expect([a.outcome, b.outcome]).toEqual(["STALE_EPOCH", "campaigning"]);
    await clock.pass(6000);
    expect([b.outcome, lock.record]).toMatchObject(["leading", { holder: "b" }]);
  });

  it("a leader that was told to stop leaves no lease behind when it is deleted meanwhile", async () => {
    const a = campaign("a");
    a.lingersMs = 6000;
    await a.clock.pass(3000);
    lock.record = undefined;
    a.stop.abort();
    await a.clock.pass(8000);
    expect([a.outcome, lock.record]).toEqual(["stopped", undefined]);
  });

  it("judges a lease by its own clock, not by the times in it", async () => {
    const slow = campaign("a", new FakeClock(0));
    await slow.clock.pass(3000);
    const skewed = campaign("b", new FakeClock(4_000_000_000_000));
    for (let i = 0; i < 40; i++) {
      await slow.clock.pass(1000);
      await skewed.clock.pass(1000);
    }
    expect([slow.outcome, skewed.outcome]).toEqual(["leading", "campaigning"]);
  });

  it("a renewal whose answer was lost is no reason to give up", async () => {
    const a = campaign("a");
    await a.clock.pass(3000);
    lock.record = { ...(lock.record as HeldRecord), version: "written-unseen" };
    await a.clock.pass(20_000);
    expect(a.outcome).toBe("leading");
  });

  it("gives the lease back when the work fails", async () => {
    const clock = new FakeClock();
    const failing = elect({
      kube,
      lease: "l",
      identity: "a",
      signal: new AbortController().signal,
      clock,
      lock: lock.of("a"),
      onLead: () => Promise.reject(new WhetstoneError("INTERNAL", "no ledger")),
    });
    const outcome = failing.catch((error: unknown) => WhetstoneError.from(error).message);
    await clock.pass(100);
    expect(await outcome).toBe("no ledger");
    expect(lock.record?.holder).toBe("");
  });
});
