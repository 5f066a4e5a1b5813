// SPDX-License-Identifier: Apache-2.0
import { describe, expect, it } from "vitest";
import { type FleetFacts, planFleet } from "./plan.ts";
import type { EngineFact, PodFact, ProbeFact } from "./state.ts";

const DESIRED_POOL = (replicas: number, more: object = {}) => ({
  name: "f",
  template: "new",
  spec: { replicas, nodesPerReplica: 1, updateTimeoutSeconds: 60, ...more },
});
const JOB = { name: "job", version: 5 };

const pod = (ordinal: number, more: Partial<PodFact> = {}): PodFact => ({
  name: `f-${ordinal}`,
  uid: `u${ordinal}`,
  ordinal,
  template: "new",
  phase: "Running",
  ip: `10.0.0.${ordinal}`,
  alive: true,
  terminating: false,
  restarts: 0,
  gate: true,
  waiting: "",
  ...more,
});
const engine = (ordinal: number, more: Partial<EngineFact> = {}): EngineFact => ({
  id: `f/f-${ordinal}`,
  url: `http://10.0.0.${ordinal}:8000`,
  state: "serving",
  policy: JOB,
  inFlight: 0,
  reason: "",
  ...more,
});
const probe = (more: Partial<ProbeFact> = {}): ProbeFact => ({ paused: false, label: "job:5", ...more });

function facts(pods: PodFact[], more: Partial<FleetFacts> & { engineList?: EngineFact[] } = {}): FleetFacts {
  const engineList = more.engineList ?? pods.map(({ ordinal }) => engine(ordinal));
  return {
    pods,
    engines: new Map(engineList.map((one) => [one.id, one])),
    probes: new Map(pods.map(({ uid }) => [uid, probe()])),
    jobs: [JOB.name],
    wantedOf: () => JOB,
    leaving: new Set(),
    offSince: new Map(),
    now: 1_000_000,
    canGroup: false,
    scheme: "http",
    taken: [],
    ...more,
  };
}

const conditions = (plan: ReturnType<typeof planFleet>): string =>
  plan.conditions.map(({ type, status, reason }) => `${type}=${status}/${reason}`).join(" ");
const states = (plan: ReturnType<typeof planFleet>): string => plan.replicas.map(({ state }) => state).join(" ");
const SETTLED = "Ready=True/AllReady Degraded=False/Healthy Progressing=False/Settled";

describe("pods", () => {
  it("are made for the ordinals that miss, and nothing is done when all is well", () => {
    const empty = planFleet(DESIRED_POOL(2), facts([]));
    expect(empty.create).toEqual([0, 1]);
    expect(conditions(empty)).toBe("Ready=False/NotEnoughReady Degraded=False/Healthy Progressing=True/Starting");
    const settled = planFleet(DESIRED_POOL(2), facts([pod(0), pod(1)]));
    expect([settled.create, settled.leave, settled.register, settled.forget, settled.gates]).toEqual([
      [],
      [],
      [],
      [],
      [],
    ]);
    expect(conditions(settled)).toBe(SETTLED);
  });

  it("leave from the top when fewer are wanted", () => {
    const plan = planFleet(DESIRED_POOL(1), facts([pod(0), pod(1), pod(2)]));
    expect(plan.leave.map(({ ordinal }) => ordinal)).toEqual([1, 2]);
    expect(plan.counts.ready).toBe(1);
    expect(conditions(plan)).toBe("Ready=True/AllReady Degraded=False/Healthy Progressing=True/Scaling");
  });

  it("leave all for a fleet of none, which is ready", () => {
    expect(planFleet(DESIRED_POOL(0), facts([pod(0)])).leave).toHaveLength(1);
    expect(conditions(planFleet(DESIRED_POOL(0), facts([])))).toContain("Ready=True/ScaledToZero");
    expect(conditions(planFleet({ ...DESIRED_POOL(0), idle: true }, facts([])))).toContain("Ready=True/NotNeeded");
  });

  it("that ended or were evicted are replaced", () => {
    expect(planFleet(DESIRED_POOL(1), facts([pod(0, { phase: "Failed", alive: false })])).leave).toHaveLength(1);
  });

  it("of somebody else are left alone and told of", () => {
    const plan = planFleet(DESIRED_POOL(1), facts([], { taken: ["f-0"] }));
    expect(plan.create).toEqual([]);
    expect(conditions(plan)).toContain("Degraded=True/NameTaken");
  });
});

describe("an older template", () => {
  const old = { template: "old" };
  it.each<[string, PodFact[], number[]]>([
    ["one at a time, from the top", [pod(0, old), pod(1, old), pod(2, old)], [2]],
    ["not while another is missing", [pod(0, old), pod(2, old)], []],
    ["not while another is not ready", [pod(0, old), pod(1, { alive: false })], []],
    ["the broken one first", [pod(0, { ...old, alive: false }), pod(1, old)], [0]],
    ["the only one", [pod(0, old)], [0]],
    ["not while one is on its way out", [pod(0, old), pod(1, { terminating: true })], []],
  ])("is replaced: %s", (_, pods, leaving) => {
    const plan = planFleet(DESIRED_POOL(Math.max(...pods.map(({ ordinal }) => ordinal)) + 1), facts(pods));
    expect(plan.leave.map(({ ordinal }) => ordinal)).toEqual(leaving);
  });

  it("waits for the one that drains", () => {
    const pods = [pod(0, old), pod(1, old)];
    expect(planFleet(DESIRED_POOL(2), facts(pods, { leaving: new Set(["u1"]) })).leave).toEqual([]);
  });
});

describe("registration", () => {
  it("is for engines that are alive, and follows their address", () => {
    const pods = [pod(0), pod(1, { alive: false }), pod(2, { ip: "10.0.0.9" })];
    const plan = planFleet(DESIRED_POOL(3), facts(pods, { engineList: [engine(2)] }));
    expect(plan.register).toEqual([
      { id: "f/f-0", url: "http://10.0.0.0:8000", controlUrl: "http://10.0.0.0:8001" },
      { id: "f/f-2", url: "http://10.0.0.9:8000", controlUrl: "http://10.0.0.9:8001" },
    ]);
    expect(planFleet(DESIRED_POOL(3), facts(pods, { engines: undefined })).register).toEqual([]);
  });

  it("is not for one that leaves", () => {
    expect(planFleet(DESIRED_POOL(0), facts([pod(0)], { engineList: [] })).register).toEqual([]);
  });

  it("ends with the pod; engines of others are left alone", () => {
    const engineList = [engine(0), engine(1), { ...engine(0), id: "e0" }, { ...engine(0), id: "ff/f-0" }];
    const plan = planFleet(DESIRED_POOL(1), facts([pod(0, { terminating: true })], { engineList }));
    expect(plan.forget).toEqual(["f/f-0", "f/f-1"]);
    const drained = facts([pod(0, { terminating: true })], { engineList, leaving: new Set(["u0"]) });
    expect(planFleet(DESIRED_POOL(1), drained).forget).toEqual(["f/f-1"]);
  });
});

describe("states and gates", () => {
  const one = (change: Partial<FleetFacts> & { engineList?: EngineFact[]; pod?: Partial<PodFact> }) =>
    planFleet(DESIRED_POOL(1), facts([pod(0, change.pod)], change));
  type Expected = [state: string, ready: boolean, condition: string];
  const probes = (value: Partial<ProbeFact> | undefined) => new Map(value === undefined ? [] : [["u0", probe(value)]]);
  const off = { offSince: new Map([["u0", 1_000_000 - 61_000]]) };
  const older = { policy: { name: "job", version: 4 } };

  it.each<[string, Parameters<typeof one>[0], ...Expected]>([
    ["serves the wanted version", {}, "Serving", true, SETTLED],
    ["is gone", { pod: { alive: false, restarts: 1 } }, "Down", false, "Degraded=True/EngineDown"],
    [
      "is quarantined, alive",
      { engineList: [engine(0, { state: "quarantined", reason: "wrong label" })] },
      "Stale",
      false,
      "Degraded=True/EngineStale",
    ],
    [
      "is quarantined, silent",
      { engineList: [engine(0, { state: "quarantined", reason: "x" })], probes: probes(undefined) },
      "Down",
      false,
      "Degraded=True/EngineDown",
    ],
    ["switches", { engineList: [engine(0, { state: "fenced", ...older })] }, "Updating", true, SETTLED],
    [
      "has just come",
      { engineList: [engine(0, { state: "fenced", ...older })], pod: { gate: false } },
      "Updating",
      false,
      "Ready=False/NotEnoughReady",
    ],
    [
      "switches for too long",
      { engineList: [engine(0, { state: "fenced", ...older })], ...off },
      "Stale",
      false,
      "Degraded=True/EngineStale",
    ],
    [
      "serves an old version for too long",
      { engineList: [engine(0, older)], probes: probes({ label: "job:4" }), ...off },
      "Stale",
      false,
      "Degraded=True/EngineStale",
    ],
    [
      "is paused behind everybody's back",
      { probes: probes({ paused: true }), ...off },
      "Stale",
      false,
      "Degraded=True/EngineStale",
    ],
    [
      "reports other weights than it should",
      { probes: probes({ label: "default" }), ...off },
      "Stale",
      false,
      "Degraded=True/EngineStale",
    ],
    [
      "has no job",
      { wantedOf: () => undefined, engineList: [engine(0, { state: "fenced" })] },
      "Paused",
      true,
      SETTLED,
    ],
    [
      "has no job and was left paused",
      { wantedOf: () => undefined, probes: probes({ paused: true }) },
      "Paused",
      false,
      "Ready=False/NotEnoughReady",
    ],
    ["serves, and one probe got lost", { probes: probes(undefined) }, "Serving", true, SETTLED],
    [
      "was never registered, control port shut",
      { engineList: [engine(0, { state: "fenced" })], probes: probes(undefined) },
      "Down",
      false,
      "Degraded=True/EngineDown",
    ],
    [
      "has a gateway that is away",
      { engines: undefined },
      "Paused",
      true,
      "Degraded=True/GatewayUnreachable Progressing=False/Settled",
    ],
    [
      "is starting",
      { engineList: [], pod: { alive: false, gate: undefined, phase: "Pending" } },
      "Down",
      false,
      "Progressing=True/Starting",
    ],
  ])("an engine that %s", (_, change, ...[state, ready, expected]) => {
    const plan = one(change);
    expect(states(plan)).toBe(state);
    expect(plan.counts.ready).toBe(ready ? 1 : 0);
    expect(conditions(plan)).toContain(expected);
  });

  it("are written only when they change, and never while the gateway is away", () => {
    expect(one({ pod: { gate: undefined } }).gates).toMatchObject([{ ready: true }]);
    expect(one({}).gates).toEqual([]);
    expect(one({ engines: undefined, pod: { gate: false } }).gates).toEqual([]);
  });

  it("end a switch that takes too long, and no other", () => {
    const engineList = [engine(0, { state: "fenced", ...older })];
    expect(one({ engineList, ...off }).late).toEqual(["f/f-0"]);
    expect(one({ engineList }).late).toEqual([]);
    expect(one(off).late).toEqual([]);
  });

  it("count from when a pod left the wanted version", () => {
    expect([...one({ engineList: [engine(0, { state: "fenced" })] }).off]).toEqual(["u0"]);
    expect([...one({}).off]).toEqual([]);
  });
});

describe("several nodes a replica", () => {
  const desired = DESIRED_POOL(1, { nodesPerReplica: 2 });
  it("are refused without LeaderWorkerSet", () => {
    const plan = planFleet(desired, facts([]));
    expect([plan.create, plan.groups]).toEqual([[], undefined]);
    expect(conditions(plan)).toContain("Ready=False/LeaderWorkerSetMissing");
  });

  it("are LeaderWorkerSet's to make; it is told of fewer once the calls have left", () => {
    expect(planFleet(desired, facts([], { canGroup: true }))).toMatchObject({ create: [], groups: 1 });
    const busy = facts([pod(0), pod(1)], { canGroup: true });
    expect(planFleet(desired, busy)).toMatchObject({ groups: 2, leave: [{ ordinal: 1 }] });
    const drained = facts([pod(0), pod(1)], { canGroup: true, engineList: [engine(0)] });
    expect(planFleet(desired, drained)).toMatchObject({ groups: 1, leave: [] });
  });
});
