// SPDX-License-Identifier: Apache-2.0
/** What state a replica is in, from what the cluster, the gateway and the engine itself say. Pure. */
import { policyLabel } from "@whetstone/core";
import type { ReplicaState } from "./schema.ts";

/** A pod of the fleet. */
export interface PodFact {
  readonly name: string;
  readonly uid: string;
  /** Of the pod's name; LeaderWorkerSet names leaders the same way. */
  readonly ordinal: number;
  /** What it was made from. */
  readonly template: string;
  readonly phase: string;
  readonly ip: string;
  /** All its containers answer their probes. */
  readonly alive: boolean;
  /** Being deleted. */
  readonly terminating: boolean;
  readonly restarts: number;
  /** The readiness gate as it is: undefined when nobody has said. */
  readonly gate: boolean | undefined;
  /** Why it does not start, as Kubernetes says: Unschedulable, ImagePullBackOff. */
  readonly waiting: string;
}

/** An engine as the gateway has it. */
export interface EngineFact {
  readonly id: string;
  readonly url: string;
  readonly state: "serving" | "fenced" | "quarantined";
  readonly policy?: { readonly name: string; readonly version: number };
  readonly inFlight: number;
  readonly reason: string;
}

/** What an engine says of itself at its control port. */
export interface ProbeFact {
  readonly paused: boolean;
  readonly label: string;
}

export interface WantedPolicy {
  readonly name: string;
  readonly version: number;
}

export interface ReplicaFacts {
  readonly pod: PodFact;
  readonly engine: EngineFact | undefined;
  /** Undefined: it does not answer. */
  readonly probe: ProbeFact | undefined;
  /** What a job wants engines to serve. Undefined: no job runs. */
  readonly wanted: WantedPolicy | undefined;
  /** For how long it has not been at the wanted version, milliseconds. */
  readonly offMs: number;
  readonly updateTimeoutMs: number;
  readonly gatewayKnown: boolean;
}

export interface Verdict {
  readonly state: ReplicaState;
  /** "": it serves. */
  readonly reason: string;
}

/**
 * Serving: takes calls under the wanted version. Paused: alive and nobody wants it. Updating: on its way, within its time.
 * Stale: another version than the wanted one for too long, or quarantined. Down: does not answer, or is not registered.
 */
export function replicaState(facts: ReplicaFacts): Verdict {
  const { pod, engine, probe, wanted, gatewayKnown } = facts;
  if (pod.terminating) return { state: "Down", reason: "the pod is being deleted" };
  if (!pod.alive) return { state: "Down", reason: notAlive(pod) };
  if (!gatewayKnown) return { state: "Paused", reason: "the gateway does not answer" };
  if (engine === undefined) return { state: "Down", reason: "not known to the gateway yet" };
  if (engine.state === "quarantined") return { state: probe ? "Stale" : "Down", reason: engine.reason };
  if (probe === undefined && engine.state !== "serving")
    return { state: "Down", reason: "its control port does not answer" };
  if (wanted === undefined) return { state: "Paused", reason: "no job runs" };
  return isAt(facts, wanted) ? { state: "Serving", reason: "" } : onItsWay(facts, wanted);
}

/** Calls go there, under the newest version, and it really computes. */
function isAt({ engine, probe }: ReplicaFacts, wanted: WantedPolicy): boolean {
  const { state, policy } = engine ?? {};
  if (state !== "serving" || policy?.name !== wanted.name || policy.version < wanted.version) return false;
  return probe?.paused !== true && (probe === undefined || probe.label === policyLabel(policy.name, policy.version));
}

function onItsWay({ engine, probe, offMs, updateTimeoutMs }: ReplicaFacts, wanted: WantedPolicy): Verdict {
  const has = probe?.label ?? (engine?.policy && policyLabel(engine.policy.name, engine.policy.version)) ?? "nothing";
  const paused = probe?.paused === true ? ", paused" : "";
  const reason = `has ${has}${paused}; wanted is ${policyLabel(wanted.name, wanted.version)}`;
  return { state: offMs > updateTimeoutMs ? "Stale" : "Updating", reason };
}

function notAlive({ phase, waiting, restarts }: PodFact): string {
  const again = restarts > 0 ? `, ${restarts} restarts` : "";
  return waiting === "" ? `the pod is ${phase}, its engine does not answer${again}` : `${waiting}${again}`;
}

/**
 * The pod's readiness gate: alive, not paused, and at a version that the running job wants. Without a job an idle engine
 * that answers and is not paused is ready: it will be brought to a job's policy before it gets calls. While it is on its way
 * to a new version the gate stays as it was, so that a switch of a second each step changes nothing for the cluster.
 */
export function gateOf(verdict: Verdict, facts: ReplicaFacts): { readonly ready: boolean; readonly message: string } {
  const { pod, probe, gatewayKnown } = facts;
  const said = { message: verdict.reason };
  if (!gatewayKnown) return { ready: pod.alive && pod.gate === true, ...said };
  if (verdict.state === "Serving") return { ready: true, ...said };
  if (verdict.state === "Paused") return { ready: probe?.paused === false, ...said };
  return { ready: verdict.state === "Updating" && pod.gate === true, ...said };
}

/** Not yet begun, or begun and not yet seen by the gateway; a restart ends the patience. */
export function isStarting({
  pod,
  engine,
  gatewayKnown,
}: Pick<ReplicaFacts, "pod" | "engine" | "gatewayKnown">): boolean {
  const unseen = gatewayKnown ? engine === undefined : !pod.alive;
  return !pod.terminating && unseen && pod.restarts === 0 && pod.phase !== "Failed";
}
