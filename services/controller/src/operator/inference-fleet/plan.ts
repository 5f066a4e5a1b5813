// SPDX-License-Identifier: Apache-2.0
/** What to do for a fleet, from its desired and the facts. Pure: no clock, no calls. */
import {
  CONTROL_PORT,
  DATA_PORT,
  engineId,
  type UndatedFleetCondition,
  type FleetSpec,
  type ReplicaStatus,
} from "./schema.ts";
import { conditionsOf } from "./conditions.ts";
import {
  type EngineFact,
  gateOf,
  isStarting,
  type PodFact,
  type ProbeFact,
  type ReplicaFacts,
  replicaState,
  type Verdict,
  type WantedPolicy,
} from "./state.ts";

export interface DesiredFleet {
  readonly name: string;
  readonly spec: Pick<FleetSpec, "replicas" | "nodesPerReplica" | "updateTimeoutSeconds">;
  /** Nothing is wanted because no job needs it, not because somebody said so. */
  readonly idle?: boolean;
  /** What pods must be made from. */
  readonly template: string;
}

export interface FleetFacts {
  readonly pods: readonly PodFact[];
  /** By id. Undefined: the gateway does not answer. */
  readonly engines: ReadonlyMap<string, EngineFact> | undefined;
  /** By the pod's uid. */
  readonly probes: ReadonlyMap<string, ProbeFact>;
  /** Names of the jobs that share the engines. */
  readonly jobs: readonly string[];
  /** What an engine, by id, is to serve. Undefined: no job runs. */
  readonly wantedOf: (engine: string) => WantedPolicy | undefined;
  /** Pods whose engine is being drained, by uid: they are deleted afterwards. */
  readonly leaving: ReadonlySet<string>;
  /** Since when a pod has not been at the wanted version, by uid, milliseconds. */
  readonly offSince: ReadonlyMap<string, number>;
  readonly now: number;
  /** LeaderWorkerSet is installed. */
  readonly canGroup: boolean;
  /** Of engines' URLs. */
  readonly scheme: "http" | "https";
  /** Names of wanted pods that belong to somebody else. */
  readonly taken: readonly string[];
}

export interface FleetPlan {
  /** Pods to make, by ordinal. */
  readonly create: readonly number[];
  /** Pods to drain, then to delete; LeaderWorkerSet deletes its own. */
  readonly leave: readonly PodFact[];
  /** Engines to make known, or to make known under another address. */
  readonly register: readonly { readonly id: string; readonly url: string; readonly controlUrl: string }[];
  /** Engines whose pod has gone or is going. */
  readonly forget: readonly string[];
  /** Engines that are not at the wanted version for longer than they may: a switch that waits for them must not go on and on. */
  readonly late: readonly string[];
  readonly gates: readonly { readonly pod: PodFact; readonly ready: boolean; readonly message: string }[];
  /** Replicas of the LeaderWorkerSet. Undefined: the fleet has none. */
  readonly groups: number | undefined;
  /** Pods that are not at the wanted version now, by uid. */
  readonly off: ReadonlySet<string>;
  readonly replicas: readonly ReplicaStatus[];
  readonly counts: { readonly present: number; readonly ready: number; readonly updated: number };
  readonly conditions: readonly UndatedFleetCondition[];
}

interface Replica {
  readonly pod: PodFact;
  readonly engine: EngineFact | undefined;
  readonly verdict: Verdict;
  readonly gate: { readonly ready: boolean; readonly message: string };
  readonly starting: boolean;
  /** Not at the wanted version for longer than it may. */
  readonly late: boolean;
}

export function planFleet(desired: DesiredFleet, facts: FleetFacts): FleetPlan {
  const replicas = facts.pods.map((pod) => replicaOf(desired, facts, pod));
  const refused = desired.spec.nodesPerReplica > 1 && !facts.canGroup;
  const grouped = desired.spec.nodesPerReplica > 1;
  const leave = chooseLeaving(desired, facts, replicas, grouped);
  const going = new Set([...facts.leaving, ...leave.map(({ uid }) => uid)]);
  const missing = missingOrdinals(desired, facts);
  const counted = replicas.filter(({ pod }) => desired.spec.replicas > pod.ordinal && !going.has(pod.uid));
  const ready = counted.filter(({ gate }) => gate.ready).length;
  return {
    create: grouped ? [] : missing.filter((ordinal) => !facts.taken.includes(`${desired.name}-${ordinal}`)),
    leave: leave.filter(({ name }) => !grouped || facts.engines?.has(engineId(desired.name, name)) === true),
    register: replicas
      .filter((replica) => mustRegister(replica, going, facts))
      .map(({ pod }) => addressOf(desired, facts, pod)),
    forget: enginesWithoutPod(desired, facts, going),
    late: replicas
      .filter(({ late, engine }) => late && engine?.state === "fenced")
      .map(({ pod }) => engineId(desired.name, pod.name)),
    gates: facts.engines ? replicas.filter(({ pod, gate }) => pod.gate !== gate.ready).map(gateChange) : [],
    groups: grouped && !refused ? groupsOf(desired, facts) : undefined,
    off: new Set(
      replicas.filter(({ verdict }) => !["Serving", "Paused"].includes(verdict.state)).map(({ pod }) => pod.uid),
    ),
    replicas: [
      ...replicas.map((replica) => statusOf(replica, facts)),
      ...missing.map((ordinal) => missingStatus(desired, ordinal)),
    ].sort(byName),
    counts: {
      present: facts.pods.length,
      ready,
      updated: replicas.filter(({ pod }) => pod.template === desired.template).length,
    },
    conditions: conditionsOf({
      wanted: desired.spec.replicas,
      idle: desired.idle ?? false,
      ready,
      present: facts.pods.length,
      outdated: replicas.filter(({ pod }) => pod.template !== desired.template).length,
      gatewayKnown: facts.engines !== undefined,
      refused,
      taken: facts.taken,
      troubled: replicas
        .filter(({ pod, starting }) => !going.has(pod.uid) && !starting)
        .map((replica) => statusOf(replica, facts)),
      starting: missing.length + replicas.filter(({ starting }) => starting).length,
    }),
  };
}

function replicaOf(desired: DesiredFleet, facts: FleetFacts, pod: PodFact): Replica {
  const known: ReplicaFacts = {
    pod,
    engine: facts.engines?.get(engineId(desired.name, pod.name)),
    probe: facts.probes.get(pod.uid),
    wanted: facts.wantedOf(engineId(desired.name, pod.name)),
    offMs: facts.now - (facts.offSince.get(pod.uid) ?? facts.now),
    updateTimeoutMs: desired.spec.updateTimeoutSeconds * 1000,
    gatewayKnown: facts.engines !== undefined,
  };
  const verdict = replicaState(known);
  return {
    pod,
    engine: known.engine,
    verdict,
    gate: gateOf(verdict, known),
    starting: isStarting(known),
    late: known.offMs > known.updateTimeoutMs,
  };
}

/**
 * Surplus and dead pods leave at once, those of an older template one at a time: first one that is not ready anyway, and a
 * ready one only while every other wanted pod is there and ready. So the last one that serves is never the first to go.
 */
function chooseLeaving(
  desired: DesiredFleet,
  facts: FleetFacts,
  replicas: readonly Replica[],
  grouped: boolean,
): PodFact[] {
  const staying = replicas.filter(({ pod }) => !facts.leaving.has(pod.uid) && !pod.terminating);
  const now = staying.filter(
    ({ pod }) => pod.ordinal >= desired.spec.replicas || ["Failed", "Succeeded"].includes(pod.phase),
  );
  if (grouped) return now.map(({ pod }) => pod);
  const rest = staying.filter((replica) => !now.includes(replica));
  const outdated = rest
    .filter(({ pod }) => pod.template !== desired.template)
    .sort((a, b) => b.pod.ordinal - a.pod.ordinal);
  const broken = outdated.find(({ gate }) => !gate.ready);
  const whole = rest.length === desired.spec.replicas && rest.every(({ gate }) => gate.ready);
  const next = broken ?? (whole ? outdated[0] : undefined);
  return [...now, ...(next ? [next] : [])].map(({ pod }) => pod);
}

function missingOrdinals({ spec }: DesiredFleet, { pods }: FleetFacts): number[] {
  const there = new Set(pods.map(({ ordinal }) => ordinal));
  return Array.from({ length: spec.replicas }, (_, ordinal) => ordinal).filter((ordinal) => !there.has(ordinal));
}

function mustRegister({ pod, engine }: Replica, going: ReadonlySet<string>, facts: FleetFacts): boolean {
  if (!facts.engines || !pod.alive || pod.terminating || pod.ip === "" || going.has(pod.uid)) return false;
  return engine?.url !== urlOf(facts.scheme, pod.ip, DATA_PORT);
}

function addressOf(desired: DesiredFleet, { scheme }: FleetFacts, pod: PodFact): FleetPlan["register"][number] {
  const [url, controlUrl] = [urlOf(scheme, pod.ip, DATA_PORT), urlOf(scheme, pod.ip, CONTROL_PORT)];
  return { id: engineId(desired.name, pod.name), url, controlUrl };
}

export function urlOf(scheme: string, ip: string, port: number): string {
  return `${scheme}://${ip.includes(":") ? `[${ip}]` : ip}:${port}`;
}

/** Pods that leave by our own hand are drained first; these have nothing left to drain. */
function enginesWithoutPod(desired: DesiredFleet, facts: FleetFacts, going: ReadonlySet<string>): string[] {
  const kept = facts.pods.filter((pod) => !pod.terminating || going.has(pod.uid));
  const ids = new Set(kept.map((pod) => engineId(desired.name, pod.name)));
  const ours = [...(facts.engines?.keys() ?? [])].filter((id) => id.startsWith(`${desired.name}/`));
  return ours.filter((id) => !ids.has(id));
}

/** LeaderWorkerSet takes the highest replica away by itself, so it is told only when that one has no calls any more. */
function groupsOf(desired: DesiredFleet, facts: FleetFacts): number {
  const draining = facts.pods.filter(
    ({ name, ordinal }) => ordinal >= desired.spec.replicas && facts.engines?.has(engineId(desired.name, name)),
  );
  return Math.max(desired.spec.replicas, ...draining.map(({ ordinal }) => ordinal + 1));
}

function gateChange({ pod, gate }: Replica): FleetPlan["gates"][number] {
  return { pod, ...gate };
}

function statusOf({ pod, engine, verdict }: Replica, { scheme }: FleetFacts): ReplicaStatus {
  const { policy } = engine ?? {};
  return {
    name: pod.name,
    state: verdict.state,
    ...(pod.ip !== "" && { url: urlOf(scheme, pod.ip, DATA_PORT) }),
    ...(policy && { policy: policy.name, policyVersion: policy.version }),
    ...(verdict.reason !== "" && { reason: verdict.reason }),
  };
}

function missingStatus(desired: DesiredFleet, ordinal: number): ReplicaStatus {
  return { name: `${desired.name}-${ordinal}`, state: "Down", reason: "its pod is being made" };
}

function byName(a: ReplicaStatus, b: ReplicaStatus): number {
  return a.name.localeCompare(b.name, undefined, { numeric: true });
}
