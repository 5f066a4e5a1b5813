// SPDX-License-Identifier: Apache-2.0
import type { Stored } from "@whetstone/kube";
import { DESIRED } from "@whetstone/messaging/jobs";
import { describe, expect, it } from "vitest";
import { CONDITIONS, REASONS, type TrainingJob } from "./schema.ts";
import type { JobFacts } from "./facts.ts";
import { needsIntake, plan } from "./plan.ts";
import {
  NOW,
  seconds,
  job,
  record,
  running,
  waiting,
  ended,
  facts,
  workload,
  given,
  started,
  queued,
  deleted,
  kinds,
  condition,
  update,
} from "./fixtures.ts";

describe("plan: actions", () => {
  const cases: [string, Stored<TrainingJob>, JobFacts, string[]][] = [
    ["leaves others' objects alone", job({ spec: { managedBy: "other" } }), facts({ intake: { kind: "valid" } }), []],
    [
      "admits what is valid, finalizer first",
      job({ meta: { finalizers: [] } }),
      facts({ intake: { kind: "valid" } }),
      ["add-finalizer", "admit"],
    ],
    [
      "makes nothing of what is invalid",
      job(),
      facts({ intake: { kind: "invalid", violations: [{ path: "a", reason: "b" }] } }),
      [],
    ],
    [
      "waits for what the text names",
      job(),
      facts({ intake: { kind: "missing", violations: [{ path: "a", reason: "b", curable: true }] } }),
      [],
    ],
    ["waits for a module", job(), facts({ intake: { kind: "module-missing", digest: "ab" } }), []],
    [
      "does not take over another job's record",
      job(),
      facts({ record: record({ uid: "u0" }), intake: { kind: "valid" } }),
      [],
    ],
    ["is content with what is", job(), facts({ record: record() }), []],
    ["suspends", job({ spec: { suspend: true } }), facts({ record: record() }), ["update"]],
    ["resumes", job(), facts({ record: record({ desired: DESIRED.suspendByUser() }) }), ["update"]],
    ["cancels", job({ spec: { cancel: true } }), facts({ record: running() }), ["update"]],
    ["never revokes a cancel", job(), facts({ record: running({ desired: DESIRED.cancelByUser() }) }), []],
    [
      "believes the record when its own copy is older",
      job({ meta: { generation: 1 } }),
      facts({ record: record({ desired: DESIRED.suspendByUser() }) }),
      [],
    ],
    ["queues in Kueue", job({ spec: queued }), facts({ intake: { kind: "valid" } }), ["admit", "make-workload"]],
    [
      "makes a workload again that somebody deleted",
      job({ spec: queued }),
      facts({ record: waiting("WaitingForQuota") }),
      ["make-workload"],
    ],
    [
      "keeps its quota while an evicted job still runs",
      job({ spec: queued }),
      facts({ record: running(), workload: workload({ evicted: "Preempted", reserved: true }) }),
      ["update"],
    ],
    [
      "gives its quota back once it stands",
      job({ spec: queued }),
      facts({
        record: waiting("Evicted", { phase: "SUSPENDED" }),
        workload: workload({ evicted: "Preempted", reserved: true }),
      }),
      ["release-workload"],
    ],
    [
      "takes a suspended job out of its queue once it stands",
      job({ spec: { ...queued, suspend: true } }),
      facts({ record: record({ desired: DESIRED.suspendByUser(), phase: "SUSPENDED" }), workload: given }),
      ["set-workload-active"],
    ],
    [
      "leaves it there while it runs",
      job({ spec: { ...queued, suspend: true } }),
      facts({ record: running({ desired: DESIRED.suspendByUser() }), workload: { ...given, podsReady: started } }),
      [],
    ],
    [
      "puts a resumed job back",
      job({ spec: queued }),
      facts({
        record: waiting("Evicted", { phase: "SUSPENDED" }),
        workload: workload({ evicted: "Deactivated", active: false, suspended: true }),
      }),
      ["set-workload-active"],
    ],
    [
      "not one that somebody else took out",
      job({ spec: queued }),
      facts({
        record: waiting("Evicted", { phase: "SUSPENDED" }),
        workload: workload({ evicted: "Deactivated", active: false }),
      }),
      [],
    ],
    [
      "tells Kueue that it has started",
      job({ spec: queued }),
      facts({ record: running(), workload: given }),
      ["set-workload-condition"],
    ],
    [
      "does not take a switch of weights for a loss",
      job({ spec: queued }),
      facts({
        ...{ record: running(), workload: { ...given, podsReady: started } },
        engines: { ready: 0, wanted: 1, oldestVersion: undefined },
      }),
      [],
    ],
    [
      "makes its Ray cluster when it is admitted",
      job({ spec: { ...queued, trainer: { backend: "verl" } } }),
      facts({ record: waiting("WaitingForTrainer"), workload: given, trainer: undefined }),
      ["set-workload-condition", "make-ray-cluster"],
    ],
    [
      "not before",
      job({ spec: { ...queued, trainer: { backend: "verl" } } }),
      facts({ record: waiting("WaitingForQuota"), workload: workload(), trainer: undefined }),
      [],
    ],
    [
      "takes it away when an evicted job stands",
      job({ spec: { ...queued, trainer: { backend: "verl" } } }),
      facts({
        record: waiting("Evicted", { phase: "SUSPENDED" }),
        workload: workload({ evicted: "Preempted", reserved: true }),
      }),
      ["delete-ray-cluster"],
    ],
    [
      "gives its quota back when that is gone",
      job({ spec: { ...queued, trainer: { backend: "verl" } } }),
      facts({
        ...{ record: waiting("Evicted", { phase: "SUSPENDED" }), trainer: undefined },
        workload: workload({ evicted: "Preempted", reserved: true }),
      }),
      ["release-workload"],
    ],
    [
      "tells of the end when its Ray cluster is gone, too",
      job({ spec: { ...queued, trainer: { backend: "verl" } } }),
      facts({ record: ended("SUCCEEDED"), workload: given }),
      ["delete-ray-cluster"],
    ],
    [
      "tells Kueue of the end",
      job({ spec: queued }),
      facts({ record: ended("SUCCEEDED"), workload: workload() }),
      ["finish-workload"],
    ],
    [
      "deletes after its time to live",
      job({ spec: { cleanup: { ttlSecondsAfterFinished: 10 } } }),
      facts({ record: ended("FAILED") }),
      ["delete"],
    ],
    [
      "keeps until then",
      job({ spec: { cleanup: { ttlSecondsAfterFinished: 11 } } }),
      facts({ record: ended("FAILED") }),
      [],
    ],
    ["cancels what is deleted", job({ meta: deleted }), facts({ record: running() }), ["update"]],
    [
      "waits for the end of what is deleted",
      job({ meta: deleted }),
      facts({ record: running({ desired: DESIRED.cancelByDeletion() }) }),
      [],
    ],
    [
      "forgets what was deleted and has ended",
      job({ meta: deleted }),
      facts({ record: ended("CANCELLED") }),
      ["purge", "remove-finalizer"],
    ],
    [
      "forgets a deleted job of which only rests are left",
      job({ meta: deleted }),
      facts(),
      ["purge", "remove-finalizer"],
    ],
    [
      "never purges another job's record",
      job({ meta: deleted }),
      facts({ record: record({ uid: "u0" }) }),
      ["remove-finalizer"],
    ],
    [
      "has nothing to do without its finalizer",
      job({ meta: { ...deleted, finalizers: [] } }),
      facts({ record: running() }),
      [],
    ],
  ];
  it.each(cases)("%s", (_, object, known, expected) => {
    expect(kinds(plan(object, known))).toEqual(expected);
  });
});

describe("plan: updates of the record", () => {
  it("suspends a queued job until it is admitted, and lets it go then", () => {
    expect(update(plan(job({ spec: queued }), facts({ intake: { kind: "valid" } })))?.desired).toEqual(
      DESIRED.suspendByController("WaitingForQuota"),
    );
    const waits = facts({
      record: waiting("WaitingForQuota"),
      workload: workload({ admitted: true, reserved: true }),
    });
    expect(update(plan(job({ spec: queued }), waits))).toMatchObject({ desired: DESIRED.run() });
  });

  it("stops a running job before it takes over a changed text, then lets it go on", () => {
    const changed = plan(job(), facts({ record: running({ generation: 1 }), isSpecChanged: true }));
    expect(update(changed)).toMatchObject({
      desired: DESIRED.suspendByController("Updating"),
      ...{ takeSpec: false, generation: 2 },
    });
    const stopped = waiting("Updating", { phase: "SUSPENDED" });
    const taken = plan(job(), facts({ record: stopped, isSpecChanged: true }));
    expect(update(taken)).toMatchObject({ desired: DESIRED.run(), takeSpec: true });
  });

  it("ends a job whose deadline has passed, with the reason, and looks again just before", () => {
    const deadlines = { preRunningSeconds: 100, activeSeconds: 50 };
    const late = plan(job({ spec: { deadlines } }), facts({ record: record() }));
    expect(update(late)).toMatchObject({
      desired: DESIRED.failByController("PreRunningDeadlineExceeded", "It did not start within 100 s."),
    });
    expect(update(plan(job({ spec: { deadlines } }), facts({ record: running() })))?.desired).toEqual(
      DESIRED.failByController("ActiveDeadlineExceeded", "It did not end within 50 s of its start."),
    );
    const soon = plan(job({ spec: { deadlines: { activeSeconds: 51 } } }), facts({ record: running() }));
    expect([kinds(soon), soon.requeueAfterMs]).toEqual([[], 1000]);
  });

  it("a user's cancel is no deadline", () => {
    const spec = { cancel: true, deadlines: { activeSeconds: 1 } };
    expect(update(plan(job({ spec }), facts({ record: running() })))).toMatchObject({
      desired: DESIRED.cancelByUser(),
    });
  });

  it("lets a job run on whose Ray cluster has lost a part, and looks often until it is back", () => {
    const verl = { trainer: { backend: "verl" } } as const;
    const trainer = { ready: 0, wanted: 1, reason: "WorkerLost" } as const;
    const made = plan(job({ spec: verl }), facts({ record: running(), trainer }));
    expect([kinds(made), made.requeueAfterMs]).toEqual([[], 5000]);
    expect(kinds(plan(job({ spec: verl }), facts({ record: running(), trainer: undefined })))).toEqual([
      "make-ray-cluster",
    ]);
  });

  it("looks again for a Ray cluster that starts or ends, of which nobody tells", () => {
    const verl = { trainer: { backend: "verl" } } as const;
    const waits = facts({ record: waiting("WaitingForTrainer"), trainer: { ready: 0, wanted: 1 } });
    expect(plan(job({ spec: verl }), waits).requeueAfterMs).toBe(5000);
    expect(plan(job({ spec: verl }), facts({ record: ended("SUCCEEDED") })).requeueAfterMs).toBe(5000);
  });

  it("looks again for what is missing, the older the job the less often, and never at a text that is wrong", () => {
    const aged = (age: number) => job({ meta: { creationTimestamp: new Date(seconds(age)).toISOString() } });
    const missing = { kind: "missing", violations: [{ path: "a", reason: "b", curable: true }] } as const;
    const waits = (age: number) => plan(aged(age), facts({ intake: missing })).requeueAfterMs;
    expect([waits(0), waits(150), waits(600), waits(86_400)]).toEqual([15_000, 15_000, 60_000, 300_000]);
    expect(needsIntake(job({ status: plan(job(), facts({ intake: missing })).status }), undefined)).toBe(true);
    const wrong = facts({ intake: { kind: "invalid", violations: [{ path: "a", reason: "b" }] } });
    expect(needsIntake(job({ status: plan(job(), wrong).status }), undefined)).toBe(false);
  });

  it("wants text looked at only where nobody has", () => {
    expect(needsIntake(job(), undefined)).toBe(true);
    expect(needsIntake(job(), record())).toBe(false);
    expect(needsIntake(job({ status: { state: "Invalid" } }), undefined)).toBe(false);
    expect(needsIntake(job({ meta: deleted }), undefined)).toBe(false);
    expect(needsIntake(job({ spec: { managedBy: "other" } }), undefined)).toBe(false);
  });
});

describe("plan: conditions", () => {
  const invalid: JobFacts["intake"] = { kind: "invalid", violations: [{ path: "loop.steps", reason: "is required" }] };
  const cases: [string, string, Stored<TrainingJob>, Partial<JobFacts>][] = [
    ["Accepted", "Unknown/Pending", job(), {}],
    ["Accepted", "False/InvalidSpec", job(), { intake: invalid }],
    ["Failed", "True/InvalidSpec", job(), { intake: invalid }],
    [
      "Accepted",
      "False/DependencyMissing",
      job(),
      { intake: { kind: "missing", violations: [{ path: "spec.job.model.path", reason: "is not there" }] } },
    ],
    ["Accepted", "False/ModuleMissing", job(), { intake: { kind: "module-missing", digest: "ab" } }],
    ["Accepted", "Unknown/CannotCheck", job(), { intake: { kind: "unavailable", message: "no answer" } }],
    ["Accepted", "False/NameTaken", job(), { record: record({ uid: "u0" }) }],
    ["Accepted", "False/KueueMissing", job(), { intake: { kind: "unsupported", reason: "KueueMissing", message: "" } }],
    ["Accepted", "True/Accepted", job(), { record: record() }],
    ["Admitted", "True/NotQueued", job(), { record: record() }],
    ["Admitted", "False/WaitingForQuota", job({ spec: queued }), { record: record(), workload: workload() }],
    [
      "Admitted",
      "False/Evicted",
      job({ spec: queued }),
      { record: record(), workload: workload({ evicted: "Preempted" }) },
    ],
    [
      "Admitted",
      "True/QuotaReserved",
      job({ spec: queued }),
      { record: record(), workload: workload({ admitted: true }) },
    ],
    ["TrainerReady", "True/Ready", job(), { record: running() }],
    ["TrainerReady", "False/NotReady", job(), { record: running(), trainer: { ready: 0, wanted: 1 } }],
    [
      "TrainerReady",
      "False/HeadLost",
      job(),
      { record: running(), trainer: { ready: 0, wanted: 1, reason: "HeadLost" } },
    ],
    ["TrainerReady", "False/RankLost", job(), { record: running({ reason: "RankLost", message: "a rank ended" }) }],
    ["TrainerReady", "True/NotNeeded", job(), { record: running({ steps: 0 }) }],
    ["TrainerReady", "Unknown/NotRunning", job(), { record: record() }],
    ["EnvironmentsReady", "True/NotNeeded", job({ spec: { job: {} } }), { record: running() }],
    ["WeightsInSync", "False/Syncing", job(), { record: running() }],
    ["WeightsInSync", "True/InSync", job(), { record: running({ policyVersion: 2 }) }],
    ["Progressing", "True/Progressing", job(), { record: running() }],
    ["Progressing", "False/NotRunning", job(), { record: record() }],
    ["Suspended", "True/SuspendedByUser", job(), { record: record({ phase: "SUSPENDED", reason: "SuspendedByUser" }) }],
    ["Suspended", "True/Evicted", job(), { record: record({ phase: "SUSPENDED", reason: "Evicted" }) }],
    ["Restarting", "True/Restarting", job(), { record: record({ reason: "Restarting" }) }],
    ["Complete", "True/Finished", job(), { record: ended("SUCCEEDED") }],
    ["Failed", "False/Ended", job(), { record: ended("SUCCEEDED") }],
    ["Failed", "True/JobFailed", job(), { record: ended("FAILED", { reason: "NotStarted" }) }],
    ["Failed", "True/Cancelled", job(), { record: ended("CANCELLED") }],
    ["Failed", "True/ActiveDeadlineExceeded", job(), { record: ended("FAILED", { reason: "ActiveDeadlineExceeded" }) }],
  ];
  it.each(cases)("%s is %s (%#)", (type, expected, object, known) => {
    const made = plan(object, facts(known));
    expect(condition(made, type)).toBe(expected);
    expect(made.status?.conditions?.map((one) => one.type)).toEqual([...CONDITIONS]);
    for (const one of made.status?.conditions ?? []) expect(REASONS).toContain(one.reason);
    const silent = (made.status?.conditions ?? []).filter(({ message }) => message === "");
    expect(silent, "conditions without a message").toEqual([]);
  });

  it("a running job that moves nothing for its time is not progressing; one that moves is, from then on", () => {
    const former = plan(job(), facts({ record: running() })).status ?? {};
    const later = { nowMs: NOW + 600_000, record: running() };
    const stuck = plan(job({ status: former }), facts(later));
    expect(condition(stuck, "Progressing")).toBe("False/NoProgress");
    const moved = plan(job({ status: former }), facts({ ...later, record: running({ step: 4 }) }));
    expect(condition(moved, "Progressing")).toBe("True/Progressing");
    expect(moved.status?.lastProgressTime).toBe("2026-01-01T12:10:00Z");
  });

  it("says that NATS refuses writes, of which the record cannot tell", () => {
    const natsRefusal = "NATS refuses writes: no space left on device";
    const made = plan(job(), facts({ record: running(), natsRefusal }));
    expect(condition(made, "Progressing")).toBe("False/NatsRefusesWrites");
    expect(made.status?.conditions?.find(({ type }) => type === "Progressing")?.message).toBe(natsRefusal);
    expect(made.status?.message).toBe(natsRefusal);
    expect(plan(job(), facts({ record: ended("SUCCEEDED"), natsRefusal })).status?.message).toBe("");
  });

  it("says what is amiss with the installation, once, also while the record cannot", () => {
    const [gone, full] = ["Secret ns/r-nats-tls was missing, and made again.", "No space left."];
    const said = (message: string) =>
      plan(job(), facts({ record: running({ message }), notices: [gone] })).status?.message;
    expect([said(""), said(full), said(gone)]).toEqual([gone, `${full} ${gone}`, gone]);
    expect(plan(job(), facts({ record: ended("SUCCEEDED"), notices: [gone] })).status?.message).toBe("");
  });

  it("a condition's time moves only with its status", () => {
    const former = plan(job(), facts({ record: running() })).status ?? {};
    const next = plan(job({ status: former }), facts({ nowMs: NOW + 5000, record: ended("SUCCEEDED") }));
    const at = (type: string) => next.status?.conditions?.find((one) => one.type === type)?.lastTransitionTime;
    expect([at("Accepted"), at("Complete")]).toEqual(["2026-01-01T12:00:00Z", "2026-01-01T12:00:05Z"]);
  });

  it("shows what the columns print", () => {
    const made = plan(job(), facts({ record: running({ restarts: 1 }), checkpoint: { step: 3, path: "/c" } }));
    expect(made.status).toMatchObject({
      state: "Running",
      progress: "3/60",
      policyVersion: 3,
      lag: 1,
      environments: "2/4",
    });
    expect(made.status).toMatchObject({ restarts: 1, lastCheckpoint: { step: 3, path: "/c" } });
  });
});
