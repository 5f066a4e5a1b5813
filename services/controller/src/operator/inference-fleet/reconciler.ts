// SPDX-License-Identifier: Apache-2.0
/** Reconciles InferenceFleet: its pods, what the gateway knows of them, readiness, status. The decisions are in plan.ts. */
import {
  type Again,
  type Kube,
  type Pod,
  PODS,
  type Reconciler,
  recordEvent,
  reflect,
  type Reflector,
  runReconciler,
  type Stored,
} from "@whetstone/kube";
import { connectorTo } from "@whetstone/tls";
import { Demand } from "../on-demand/demand.ts";
import { EngineProbe } from "./engine-probe.ts";
import { CONTROL_PORT, INFERENCE_FLEETS, type InferenceFleet, LABELS, type StoredFleet } from "./schema.ts";
import { engineFact, podFact } from "./facts.ts";
import { type FleetFacts, type FleetPlan, planFleet, urlOf } from "./plan.ts";
import { LEADER_WORKER_SETS, leaderWorkerSet, templateHash } from "./pods.ts";
import type { EngineFact, PodFact, ProbeFact } from "./state.ts";
import { fleetStatus } from "./status.ts";
import { fleetFor } from "../on-demand/need.ts";
import { EngineDepartures } from "./engine-departures.ts";
import { EnginePods } from "./engine-pods.ts";
import { unlessGone } from "../gone.ts";
import { isSameStatus, mayWrite } from "../status-writes.ts";
import type { OperatorParts } from "../parts.ts";

/** How often a fleet is looked at: engines and gateway do not report by themselves. */
const LOOK_MS = { busy: 1_000, calm: 5_000 } as const;

export async function startInferenceFleets(parts: OperatorParts, signal: AbortSignal): Promise<AsyncDisposable> {
  const fleets = new Fleets(parts, signal);
  await fleets.start();
  return fleets;
}

class Fleets implements AsyncDisposable {
  readonly #parts: OperatorParts;
  readonly #kube: Kube;
  readonly #probe: EngineProbe;
  readonly #scheme: "http" | "https";
  readonly #fleets: Reflector<InferenceFleet>;
  readonly #pods: Reflector<Pod>;
  readonly #reconciler: Reconciler;
  readonly #signal: AbortSignal;
  readonly #departures: EngineDepartures;
  readonly #enginePods: EnginePods;
  readonly #demand: Demand;
  /** Since when a pod is not at the wanted version, by uid, milliseconds. */
  readonly #offSince = new Map<string, number>();
  readonly #wroteAt = new Map<string, number>();

  constructor(parts: OperatorParts, signal: AbortSignal) {
    this.#parts = parts;
    this.#kube = parts.kube;
    this.#signal = signal;
    this.#scheme = parts.tls ? "https" : "http";
    this.#probe = new EngineProbe(parts.tls && connectorTo(parts.tls.to("engine")));
    this.#enginePods = new EnginePods(parts.kube);
    this.#demand = new Demand(parts, signal);
    this.#departures = new EngineDepartures(parts, signal, {
      onLeave: (fleet, message) => this.#tell(fleet, "Draining", message),
      onDone: (fleet) => this.#reconciler.enqueue(fleet),
    });
    const { logger, metrics, kube } = parts;
    this.#reconciler = runReconciler({
      name: "inference-fleet",
      reconcile: (key, each) => this.#reconcile(key, each),
      ...{ logger, metrics, signal },
    });
    this.#fleets = reflect(kube, INFERENCE_FLEETS, { signal, onChange: (key) => this.#reconciler.enqueue(key) });
    this.#pods = reflect(kube, PODS, {
      ...{ signal, labels: LABELS.fleet },
      indexBy: fleetOf,
      onChange: (_, pod) => this.#reconciler.enqueue(fleetOf(pod) ?? ""),
    });
  }

  /** Nothing is decided before both caches are whole: a pod that is not seen yet would be made again. */
  async start(): Promise<void> {
    await Promise.all([this.#fleets.synced, this.#pods.synced]).catch((error: unknown) => {
      if (!this.#signal.aborted) throw error;
    });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#fleets[Symbol.dispose]();
    this.#pods[Symbol.dispose]();
    this.#demand[Symbol.dispose]();
    await this.#reconciler.close();
    await this.#probe[Symbol.asyncDispose]();
  }

  async #reconcile(name: string, signal: AbortSignal): Promise<Again | void> {
    await this.start();
    const stored = this.#fleets.get(name);
    const engines = await this.#engines(signal);
    if (!stored || stored.metadata.deletionTimestamp !== undefined) return this.#forgetFleet(name, engines);
    const need = stored.spec.onDemand ? await this.#demand.now(signal) : undefined;
    const fleet = fleetFor(stored, need);
    const idle = stored.spec.onDemand && !need;
    const facts = await this.#facts(fleet, engines, signal);
    const desired = { name, spec: fleet.spec, template: templateHash(fleet.spec), idle };
    const plan = planFleet(desired, facts);
    this.#noteOff(facts, plan);
    await this.#carryOut(fleet, facts, plan, signal);
    await this.#writeStatus(fleet, facts, plan);
    const calm = plan.conditions.every(({ type, status }) => (status === "True") === (type === "Ready"));
    return { requeueAfterMs: calm && !idle ? LOOK_MS.calm : LOOK_MS.busy };
  }

  async #engines(signal: AbortSignal): Promise<Map<string, EngineFact> | undefined> {
    try {
      const { engines } = await this.#parts.fleetClient.listEngines({}, { signal, deadlineMs: 5_000 });
      return new Map(engines.map((engine) => [engine.id, engineFact(engine)]));
    } catch (error) {
      this.#parts.logger.debug("gateway_not_asked", { error });
      return undefined;
    }
  }

  async #facts(fleet: StoredFleet, engines: FleetFacts["engines"], signal: AbortSignal): Promise<FleetFacts> {
    const { name } = fleet.metadata;
    const pods = this.#pods.by(name).flatMap((pod) => podFact(pod) ?? []);
    const wanted = this.#parts.fleet.wanted;
    return {
      pods,
      engines,
      probes: await this.#probes(pods, signal),
      wanted: wanted && { name: wanted.job, version: Number(wanted.policyVersion) },
      leaving: this.#departures.leaving,
      offSince: this.#offSince,
      now: Date.now(),
      canGroup: fleet.spec.nodesPerReplica > 1 && (await this.#kube.has(LEADER_WORKER_SETS, { signal })),
      scheme: this.#scheme,
      taken: await this.#enginePods.taken(name, signal),
    };
  }

  async #probes(pods: readonly PodFact[], signal: AbortSignal): Promise<Map<string, ProbeFact>> {
    const asked = pods
      .filter(({ alive, ip, terminating }) => alive && ip !== "" && !terminating)
      .map(async ({ uid, ip }) => [uid, await this.#probe.ask(urlOf(this.#scheme, ip, CONTROL_PORT), signal)] as const);
    const answers = await Promise.all(asked);
    return new Map(answers.filter((answer): answer is [string, ProbeFact] => answer[1] !== undefined));
  }

  #noteOff(facts: FleetFacts, { off }: FleetPlan): void {
    for (const { uid } of facts.pods) {
      if (!off.has(uid)) this.#offSince.delete(uid);
      else if (!this.#offSince.has(uid)) this.#offSince.set(uid, facts.now);
    }
  }

  async #carryOut(fleet: StoredFleet, facts: FleetFacts, plan: FleetPlan, signal: AbortSignal): Promise<void> {
    const { fleetClient } = this.#parts;
    for (const engine of plan.register) await fleetClient.registerEngine(engine, { signal });
    for (const id of plan.forget) this.#departures.forget(id);
    for (const id of plan.abandon) this.#parts.fleet.abandon(id);
    for (const pod of plan.leave) this.#departures.sendAway(fleet, pod);
    for (const ordinal of plan.create) await this.#createPod(fleet, ordinal, signal);
    for (const gate of plan.gates) await this.#enginePods.writeGate(gate, signal);
    if (plan.groups !== undefined)
      await this.#kube.apply(LEADER_WORKER_SETS, leaderWorkerSet(fleet, plan.groups), { signal });
    this.#cleanUp(facts);
  }

  async #createPod(fleet: StoredFleet, ordinal: number, signal: AbortSignal): Promise<void> {
    const made = await this.#enginePods.create(fleet, ordinal, signal);
    if (made !== undefined) this.#tell(fleet, "PodCreated", `made the pod ${made}`);
  }

  /** The garbage collector deletes the pods of a fleet that is gone. */
  #forgetFleet(name: string, engines: FleetFacts["engines"]): Again | undefined {
    this.#enginePods.forget(name);
    this.#wroteAt.delete(name);
    if (engines === undefined) return { requeueAfterMs: LOOK_MS.calm };
    for (const id of engines.keys()) if (id.startsWith(`${name}/`)) this.#departures.forget(id);
    return undefined;
  }

  #cleanUp({ pods }: FleetFacts): void {
    const alive = new Set(this.#pods.all().map(({ metadata }) => metadata.uid));
    for (const { uid } of pods) alive.add(uid);
    this.#departures.keepOnly(alive);
    for (const uid of this.#offSince.keys()) if (!alive.has(uid)) this.#offSince.delete(uid);
  }

  async #writeStatus(fleet: StoredFleet, facts: FleetFacts, plan: FleetPlan): Promise<void> {
    const { name } = fleet.metadata;
    const status = fleetStatus(fleet, facts, plan);
    if (isSameStatus(fleet.status, status)) return;
    if (!mayWrite(fleet.status, status, facts.now - (this.#wroteAt.get(name) ?? 0))) return;
    this.#wroteAt.set(name, facts.now);
    await this.#kube.applyStatus(INFERENCE_FLEETS, { metadata: { name }, status }).catch(unlessGone);
  }

  #tell(fleet: StoredFleet, reason: string, message: string): void {
    recordEvent(this.#kube, fleet, { of: INFERENCE_FLEETS, reason, message });
  }
}

function fleetOf(pod: Stored<Pod>): string | undefined {
  return pod.metadata.labels?.[LABELS.fleet];
}
