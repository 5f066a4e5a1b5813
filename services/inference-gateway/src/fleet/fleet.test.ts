// SPDX-License-Identifier: Apache-2.0
import { describe, expect, it } from "vitest";
import { ApiError } from "../completion/api-error.ts";
import { CallScope } from "../completion/call-scope.ts";
import { callerOf } from "./fair-queue.ts";
import { Fleet } from "./fleet.ts";
import type { EngineEntry, Lease } from "./engine-entry.ts";
import type { Want } from "./fleet.ts";

const served = (version: bigint, policy = "job") => ({
  policy,
  version,
  label: `${policy}:${version}`,
  modelPath: "/m",
});
const UNBOUND = { maxWaitingPerJob: Infinity, maxWaitingPerSession: Infinity };
const TEXT = { maxModelLen: 10, images: false };
const want = (more: Partial<Want> = {}): Want => ({
  policy: "job",
  minVersion: -1n,
  preferId: "",
  caller: callerOf("job.s"),
  ...more,
});

function fleetOf(engines: number, options: Partial<ConstructorParameters<typeof Fleet>[0]> = {}): Fleet {
  const fleet = new Fleet({ maxInFlightPerEngine: 2, maxWaiting: 3, stickyTolerance: 1, ...UNBOUND, ...options });
  for (let i = 0; i < engines; i++) fleet.unfence(fleet.register(`e${i}`, `http://h${i}`), served(1n), TEXT);
  return fleet;
}

function take(fleet: Fleet, more: Partial<Want> = {}): Lease {
  const lease = fleet.acquire(want(more), new CallScope());
  if (lease instanceof Promise) throw new Error("had to wait");
  return lease;
}

const at = (fleet: Fleet, id: string): EngineEntry => fleet.engines.get(id)!;

describe("Fleet", () => {
  it("gives a call to the idlest engine, a session to its own while that is not much busier", () => {
    const fleet = fleetOf(2, { maxInFlightPerEngine: 9 });
    expect([take(fleet), take(fleet)].map(({ engine }) => engine.id)).toEqual(["e0", "e1"]);
    expect(take(fleet, { preferId: "e1" }).engine.id).toBe("e1");
    expect(take(fleet, { preferId: "e1" }).engine.id).toBe("e1");
    expect(take(fleet, { preferId: "e1" }).engine.id).toBe("e0");
  });

  it("serves waiting calls in order of arrival, and lets those pass whom an older version suits", async () => {
    const fleet = fleetOf(1, { maxInFlightPerEngine: 1 });
    const running = take(fleet);
    const order: string[] = [];
    const wait = (name: string, minVersion: bigint): void => {
      void Promise.resolve(fleet.acquire(want({ minVersion }), new CallScope())).then((lease) => {
        order.push(name);
        fleet.release(lease);
      });
    };
    wait("newer", 2n);
    wait("first", 1n);
    wait("second", 1n);
    fleet.release(running);
    await new Promise((resolve) => setImmediate(resolve));
    expect(order).toEqual(["first", "second"]);
    fleet.unfence(at(fleet, "e0"), served(2n), TEXT);
    await new Promise((resolve) => setImmediate(resolve));
    expect(order).toEqual(["first", "second", "newer"]);
    expect(fleet.waiting().size).toBe(0);
  });

  it("serves the job with fewest calls running first, in it the sessions in turns", async () => {
    const fleet = fleetOf(1, { maxInFlightPerEngine: 2, maxWaiting: 99 });
    const running = [take(fleet, { caller: callerOf("a.1") }), take(fleet, { caller: callerOf("a.1") })];
    const order: string[] = [];
    const leases: Lease[] = [];
    for (const session of ["a.1", "a.1", "a.1", "a.2", "b.1", "b.1", "b.1"]) {
      void Promise.resolve(fleet.acquire(want({ caller: callerOf(session) }), new CallScope())).then((lease) => {
        order.push(session);
        leases.push(lease);
      });
    }
    for (let next = running.pop(); next !== undefined; next = running.pop() ?? leases.shift()) {
      fleet.release(next);
      await new Promise((resolve) => setImmediate(resolve));
    }
    expect(order).toEqual(["b.1", "a.1", "b.1", "a.2", "b.1", "a.1", "a.1"]);
    expect(fleet.waiting().size).toBe(0);
  });

  it("takes turns also where there is room for several at once", async () => {
    const fleet = fleetOf(1, { maxInFlightPerEngine: 3, maxWaiting: 99 });
    fleet.fence(at(fleet, "e0"));
    const order: string[] = [];
    for (const session of ["a.1", "a.1", "a.2", "b.1"])
      void Promise.resolve(fleet.acquire(want({ caller: callerOf(session) }), new CallScope())).then(() => {
        order.push(session);
      });
    fleet.unfence(at(fleet, "e0"), served(1n), TEXT);
    await new Promise((resolve) => setImmediate(resolve));
    expect(order).toEqual(["a.1", "b.1", "a.2"]);
    expect(fleet.waiting().get("job")).toBe(1);
  });

  it("bounds the queue and frees the place of a call that is cancelled", async () => {
    const fleet = fleetOf(1);
    fleet.fence(at(fleet, "e0"));
    const scope = new CallScope();
    const waits = [scope, new CallScope(), new CallScope()].map((each) => fleet.acquire(want(), each));
    expect(() => fleet.acquire(want(), new CallScope())).toThrow(/3 calls wait/);
    scope.cancel(new ApiError("CANCELLED", "left", "the client left"));
    await expect(waits[0]).rejects.toThrow("the client left");
    expect(fleet.waiting().get("job")).toBe(2);
  });

  it("keeps a quarantine through a fence, and ends it by an unfence only (I7)", () => {
    const fleet = fleetOf(1);
    const engine = at(fleet, "e0");
    let revoked = 0;
    take(fleet).revoke = () => revoked++;
    fleet.quarantine(engine, "lied");
    fleet.quarantine(engine, "again");
    fleet.fence(engine);
    expect([engine.state, engine.reason]).toEqual(["quarantined", "lied"]);
    expect(revoked).toBeGreaterThan(0);
    fleet.unfence(engine, served(2n), TEXT);
    expect([engine.state, engine.reason]).toEqual(["serving", ""]);
  });

  it("treats an engine under another URL as a new one", () => {
    const fleet = fleetOf(1);
    const old = at(fleet, "e0");
    expect(fleet.register("e0", "http://h0")).toBe(old);
    expect(fleet.register("e0", "http://elsewhere").state).toBe("fenced");
    expect(old.state).toBe("quarantined");
  });

  it("tells those who wait for a policy that is forgotten", async () => {
    const fleet = fleetOf(1);
    fleet.fence(at(fleet, "e0"));
    const waits = fleet.acquire(want(), new CallScope());
    fleet.forget("job");
    await expect(waits).rejects.toMatchObject({ reason: "policy_not_ready" });
  });

  it("knows an unknown policy from one that is not there yet", () => {
    const fleet = fleetOf(1);
    expect(() => fleet.acquire(want({ policy: "other" }), new CallScope())).toThrow(
      expect.objectContaining({ code: "NOT_FOUND" }),
    );
    fleet.register("new", "http://new");
    expect(() => fleet.acquire(want({ policy: "other" }), new CallScope())).toThrow(
      expect.objectContaining({ code: "UNAVAILABLE" }),
    );
  });
});

it("lets calls for a policy wait whose last engine was given to another, until it is forgotten", async () => {
  const fleet = fleetOf(1);
  fleet.unfence(at(fleet, "e0"), served(1n, "other"), TEXT);
  const waiting = fleet.acquire(want(), new CallScope());
  expect(waiting).toBeInstanceOf(Promise);
  fleet.forget("job");
  await expect(waiting).rejects.toThrow('no engine serves the policy "job"');
  expect(() => fleet.acquire(want(), new CallScope())).toThrow('no engine serves the policy "job"');
});

describe("adapters beside an engine's weights", () => {
  const LAB = want({ policy: "lab" });
  const adapter = (version: bigint) => ({ ...served(version, "lab"), isAdapter: true });

  it("share its room with it, and get calls where they are", () => {
    const fleet = fleetOf(2);
    fleet.putAdapters(at(fleet, "e1"), [adapter(1n)]);
    expect([fleet.isServed("lab"), fleet.contextOf("lab")]).toEqual([true, 10]);
    const leases = [take(fleet, LAB), take(fleet, LAB)];
    expect(leases.map(({ engine, served: { label } }) => [engine.id, label])).toEqual([
      ["e1", "lab:1"],
      ["e1", "lab:1"],
    ]);
    expect(fleet.acquire(LAB, new CallScope())).toBeInstanceOf(Promise);
    expect(take(fleet).engine.id).toBe("e0");
  });

  it("let calls wait for room that a call of another policy gives back", async () => {
    const fleet = fleetOf(1, { maxInFlightPerEngine: 1 });
    fleet.putAdapters(at(fleet, "e0"), [adapter(1n)]);
    const running = take(fleet);
    const waiting = fleet.acquire(LAB, new CallScope());
    fleet.release(running);
    const lease = await waiting;
    expect(lease.served.label).toBe("lab:1");
    const next = fleet.acquire(want(), new CallScope());
    fleet.release(lease);
    expect((await next).served.label).toBe("job:1");
  });

  it("go when the engine is unfenced, which may be another process, and calls wait for them meanwhile", async () => {
    const fleet = fleetOf(1);
    const engine = at(fleet, "e0");
    fleet.putAdapters(engine, [adapter(1n)]);
    fleet.fence(engine);
    fleet.unfence(engine, served(1n), TEXT);
    const waiting = fleet.acquire(LAB, new CallScope());
    expect(fleet.isServed("lab")).toBe(false);
    fleet.putAdapters(engine, [adapter(2n)]);
    expect((await waiting).served.label).toBe("lab:2");
  });

  it("are unknown when they were taken away", () => {
    const fleet = fleetOf(1);
    fleet.putAdapters(at(fleet, "e0"), [adapter(1n)]);
    fleet.putAdapters(at(fleet, "e0"), []);
    expect(() => fleet.acquire(LAB, new CallScope())).toThrow('no engine serves the policy "lab"');
    fleet.putAdapters(at(fleet, "e0"), [adapter(1n)]);
    fleet.forget("lab");
    expect(() => fleet.acquire(LAB, new CallScope())).toThrow('no engine serves the policy "lab"');
    expect(take(fleet).served.label).toBe("job:1");
  });
});
