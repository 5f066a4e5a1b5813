// SPDX-License-Identifier: Apache-2.0
// A job's plan where engines and trainer of the installation come only when one needs them.
import { DESIRED } from "@whetstone/messaging/jobs";
import { describe, expect, it } from "vitest";
import type { PartsFacts } from "./facts.ts";
import { firstState } from "./suspend.ts";
import { plan } from "./plan.ts";
import {
  condition,
  ended,
  facts,
  given,
  job,
  kinds,
  update,
  queued,
  record,
  running,
  started,
  waiting,
  workload,
} from "./fixtures.ts";

const parts = (over: Partial<PartsFacts> = {}): PartsFacts => ({
  missing: undefined,
  pods: 2,
  neededBy: "fl",
  ...over,
});
const noEngines = parts({ missing: "engines", pods: 0 });

describe("a job whose engines come on demand", () => {
  it("waits until they are there, says so, and looks every second", () => {
    const admits = plan(job(), facts({ intake: { kind: "valid" }, parts: { ...noEngines, neededBy: undefined } }));
    expect(update(admits)?.desired).toEqual(DESIRED.suspendByController("WaitingForEngines"));
    const waits = plan(job(), facts({ record: waiting("WaitingForEngines"), parts: noEngines }));
    expect([kinds(waits), waits.requeueAfterMs, waits.status?.message]).toEqual([[], 1000, "Being started: engines."]);
    const come = plan(job(), facts({ record: waiting("WaitingForEngines"), parts: parts() }));
    expect([update(come)?.desired, come.requeueAfterMs]).toEqual([DESIRED.run(), undefined]);
  });

  it("waits for the trainer, too", () => {
    expect(update(plan(job(), facts({ record: record(), parts: parts({ missing: "trainer" }) })))?.desired).toEqual(
      DESIRED.suspendByController("WaitingForTrainer"),
    );
  });

  it("waits from its first moment, when nobody has looked yet", () => {
    expect(firstState(job(), true)).toEqual(DESIRED.suspendByController("WaitingForEngines"));
    expect(firstState(job({ spec: queued }), true)).toEqual(DESIRED.suspendByController("WaitingForQuota"));
    expect(firstState(job(), false)).toEqual(DESIRED.run());
    expect(firstState(job({ spec: { suspend: true } }), true)).toEqual(DESIRED.suspendByUser());
  });

  it("looks less often when it is not the next", () => {
    const later = { ...noEngines, neededBy: "other" };
    expect(plan(job(), facts({ record: waiting("WaitingForEngines"), parts: later })).requeueAfterMs).toBe(5000);
  });

  it("asks for quota before anything else", () => {
    const waits = plan(
      job({ spec: queued }),
      facts({ record: waiting("WaitingForQuota"), workload: workload(), parts: noEngines }),
    );
    expect([kinds(waits), waits.status?.message]).toEqual([[], "waits"]);
  });

  it("is suspended as its user says, whatever it would wait for", () => {
    const suspended = { phase: "SUSPENDED", reason: "SuspendedByUser", desired: DESIRED.suspendByUser() } as const;
    const made = plan(job({ spec: { suspend: true } }), facts({ record: record(suspended), parts: noEngines }));
    expect([kinds(made), condition(made, "Suspended"), made.status?.message, made.requeueAfterMs]).toEqual([
      [],
      "True/SuspendedByUser",
      "",
      undefined,
    ]);
    const resumed = plan(job(), facts({ record: record(suspended), parts: noEngines }));
    expect(update(resumed)?.desired).toEqual(DESIRED.suspendByController("WaitingForEngines"));
    const waits = waiting("WaitingForEngines", { phase: "SUSPENDED", reason: "SuspendedByUser" });
    expect(condition(plan(job(), facts({ record: waits, parts: noEngines })), "Suspended")).toBe(
      "True/WaitingForEngines",
    );
  });
});

describe("quota of a job whose engines come on demand", () => {
  const evicted = workload({ evicted: "Preempted", reserved: true });
  const stands = waiting("Evicted", { phase: "SUSPENDED" });
  const leaves = (over: Partial<PartsFacts>) =>
    plan(job({ spec: queued }), facts({ record: stands, workload: evicted, parts: parts(over) }));

  it("is given back when the last pod is gone", () => {
    const waits = leaves({ neededBy: undefined });
    expect([kinds(waits), waits.requeueAfterMs]).toEqual([[], 1000]);
    expect(kinds(leaves({ neededBy: undefined, pods: 0 }))).toEqual(["release-workload"]);
  });

  it("is not given back while its record lets it run: pods may be made at this moment", () => {
    const waits = leaves({ pods: 0 });
    expect([kinds(waits), waits.requeueAfterMs]).toEqual([[], 1000]);
  });

  it("is given back by a suspended job, too, which looks until the last pod is gone", () => {
    const record_ = record({ phase: "SUSPENDED", desired: DESIRED.suspendByUser(), reason: "SuspendedByUser" });
    const known = { ...given, podsReady: { ready: false, reason: "WaitForRecovery" } };
    const suspended = (over: Partial<PartsFacts>) =>
      plan(
        job({ spec: { ...queued, suspend: true } }),
        facts({ record: record_, workload: known, parts: parts(over) }),
      );
    const waits = suspended({ neededBy: undefined });
    expect([kinds(waits), waits.requeueAfterMs]).toEqual([[], 1000]);
    expect(kinds(suspended({ neededBy: undefined, pods: 0 }))).toEqual(["set-workload-active"]);
    expect(kinds(suspended({ neededBy: "other" }))).toEqual(["set-workload-active"]);
  });

  it("is given back at once when they stay for another job, which has quota of its own", () => {
    expect(kinds(leaves({ neededBy: "other" }))).toEqual(["release-workload"]);
  });

  it("is given back at its end no sooner than its pods are gone, and the object is not deleted before", () => {
    const spec = { ...queued, cleanup: { ttlSecondsAfterFinished: 0 } };
    const ends = (over: Partial<PartsFacts>) =>
      plan(job({ spec }), facts({ record: ended("SUCCEEDED"), workload: given, parts: parts(over) }));
    const waits = ends({ neededBy: undefined });
    expect([kinds(waits), waits.requeueAfterMs]).toEqual([[], 1000]);
    expect(kinds(ends({ neededBy: undefined, pods: 0 }))).toEqual(["finish-workload", "delete"]);
    expect(kinds(ends({ neededBy: "other" }))).toEqual(["finish-workload", "delete"]);
  });

  it("stays while the job runs", () => {
    const known = { record: running(), workload: { ...given, podsReady: started }, parts: parts() };
    expect(kinds(plan(job({ spec: queued }), facts(known)))).toEqual([]);
  });
});
