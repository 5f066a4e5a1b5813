// SPDX-License-Identifier: Apache-2.0
/** Reconciles InferenceFleet: its pods, what the gateway knows of them, readiness, status. The decisions are in domain/. */
import { durationFromMs } from "@bufbuild/protobuf/wkt";
import { WhetstoneError } from "@whetstone/core";
import {
  type Again,
  type Draft,
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
import { EngineProbe } from "../adapters/engine-probe.ts";
import {
  CONTROL_PORT,
  engineId,
  INFERENCE_FLEETS,
  type InferenceFleet,
  LABELS,
  SERVING_GATE,
  type StoredFleet,
} from "../domain/inference-fleet.ts";
import { engineFact, podFact } from "../domain/inference-fleet-facts.ts";
import { type FleetFacts, type FleetPlan, planFleet, urlOf } from "../domain/inference-fleet-plan.ts";
import { enginePod, LEADER_WORKER_SETS, leaderWorkerSet, templateHash } from "../domain/inference-fleet-pods.ts";
import type { EngineFact, PodFact, ProbeFact } from "../domain/inference-fleet-state.ts";
import { fleetStatus } from "../domain/inference-fleet-status.ts";
import { isSameStatus, mayWrite } from "./status-writes.ts";
import type { OperatorParts } from "./operator.ts";

/** How often a fleet is looked at: engines and gateway send no news by themselves. */
const LOOK_MS = { busy: 1_000, calm: 5_000 } as const;
/** What an engine that is gone may still be answering with: nothing that is worth a wait. */
const FORGET_DRAIN_MS = 2_000;

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
  /** Pods whose engine is drained, by uid. A successor drains again: that is harmless. */
  readonly #leaving = new Map<string, Promise<void>>();
  readonly #forgetting = new Set<string>();
  readonly #offSince = new Map<string, number>();
  readonly #taken = new Map<string, Set<string>>();
  readonly #wroteAt = new Map<string, number>();

  constructor(parts: OperatorParts, signal: AbortSignal) {
    this.#parts = parts;
    this.#kube = parts.kube;
    this.#signal = signal;
    this.#scheme = parts.tls ? "https" : "http";
    this.#probe = new EngineProbe(parts.tls && connectorTo(parts.tls.to("engine")));
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
    await this.#reconciler.close();
    await this.#probe[Symbol.asyncDispose]();
  }

  async #reconcile(name: string, signal: AbortSignal): Promise<Again | void> {
    await this.start();
    const fleet = this.#fleets.get(name);
    const engines = await this.#engines(signal);
    if (!fleet || fleet.metadata.deletionTimestamp !== undefined) return this.#forgetFleet(name, engines);
    const facts = await this.#facts(fleet, engines, signal);
    const wish = { name, spec: fleet.spec, template: templateHash(fleet.spec) };
    const plan = planFleet(wish, facts);
    this.#noteOff(facts, plan);
    await this.#carryOut(fleet, facts, plan, signal);
    await this.#writeStatus(fleet, facts, plan);
    const calm = plan.conditions.every(({ type, status }) => (status === "True") === (type === "Ready"));
    return { requeueAfterMs: calm ? LOOK_MS.calm : LOOK_MS.busy };
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
      leaving: new Set(this.#leaving.keys()),
      offSince: this.#offSince,
      now: Date.now(),
      canGroup: fleet.spec.nodesPerReplica > 1 && (await this.#kube.has(LEADER_WORKER_SETS, { signal })),
      scheme: this.#scheme,
      taken: await this.#stillTaken(name, signal),
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
    for (const id of plan.forget) this.#forget(id, FORGET_DRAIN_MS);
    for (const id of plan.abandon) this.#parts.fleet.abandon(id);
    for (const pod of plan.leave) this.#sendAway(fleet, pod);
    for (const ordinal of plan.create) await this.#createPod(fleet, ordinal, signal);
    for (const { pod, ready, message } of plan.gates) await this.#writeGate(pod, ready, message, signal);
    if (plan.groups !== undefined)
      await this.#kube.apply(LEADER_WORKER_SETS, leaderWorkerSet(fleet, plan.groups), { signal });
    this.#cleanUp(facts);
  }

  async #createPod(fleet: StoredFleet, ordinal: number, signal: AbortSignal): Promise<void> {
    const draft = enginePod(fleet, ordinal);
    const podName = draft.metadata.name ?? "";
    try {
      await this.#kube.create(PODS, draft, { signal });
      this.#tell(fleet, "PodCreated", `made the pod ${podName}`);
    } catch (error) {
      if (WhetstoneError.from(error).code !== "ALREADY_EXISTS") throw error;
      const there = await this.#kube.get(PODS, podName, { signal });
      const ours = there === undefined || there.metadata.ownerReferences?.some(({ uid }) => uid === fleet.metadata.uid);
      if (!ours) this.#takenOf(fleet.metadata.name).add(podName);
    }
  }

  async #stillTaken(fleet: string, signal: AbortSignal): Promise<string[]> {
    const taken = this.#takenOf(fleet);
    for (const pod of taken) if (!(await this.#kube.get(PODS, pod, { signal }))) taken.delete(pod);
    return [...taken];
  }

  #takenOf(fleet: string): Set<string> {
    const known = this.#taken.get(fleet) ?? new Set();
    this.#taken.set(fleet, known);
    return known;
  }

  async #writeGate({ name }: PodFact, ready: boolean, message: string, signal: AbortSignal): Promise<void> {
    const status = ready ? "True" : "False";
    const condition = { type: SERVING_GATE, status, reason: ready ? "Serving" : "NotServing", message };
    const lastTransitionTime = new Date().toISOString();
    // Its other conditions are the kubelet's: with server-side apply this one is added to the list.
    const conditions = [{ ...condition, lastTransitionTime }];
    const draft = { metadata: { name }, status: { conditions } } as Draft<Pod>;
    await this.#kube.applyStatus(PODS, draft, { signal }).catch(unlessGone);
  }

  /** Drains the engine, then deletes its pod: calls end where they run, or go on elsewhere. */
  #sendAway(fleet: StoredFleet, pod: PodFact): void {
    const drainMs = fleet.spec.drainSeconds * 1000;
    const work = async (): Promise<void> => {
      this.#tell(fleet, "Draining", `${pod.name} leaves; its calls have ${fleet.spec.drainSeconds} s`);
      await this.#remove(engineId(fleet.metadata.name, pod.name), drainMs);
      if (fleet.spec.nodesPerReplica === 1) await this.#kube.delete(PODS, pod.name, { uid: pod.uid });
    };
    const done = work().catch((error: unknown) => {
      this.#parts.logger.warn("engine_not_removed", { pod: pod.name, error });
      this.#leaving.delete(pod.uid); // The next look tries again.
    });
    this.#leaving.set(pod.uid, done);
    void done.finally(() => this.#reconciler.enqueue(fleet.metadata.name));
  }

  #forget(id: string, drainMs: number): void {
    if (this.#forgetting.has(id)) return;
    this.#forgetting.add(id);
    void this.#remove(id, drainMs)
      .catch((error: unknown) => this.#parts.logger.warn("engine_not_forgotten", { engine: id, error }))
      .finally(() => this.#forgetting.delete(id));
  }

  async #remove(id: string, drainMs: number): Promise<void> {
    this.#parts.fleet.abandon(id);
    const drain = durationFromMs(drainMs);
    const options = { signal: this.#signal, deadlineMs: drainMs + 15_000 };
    const { revoked } = await this.#parts.fleetClient.removeEngine({ id, drain }, options);
    this.#parts.logger.info("engine_removed", { engine: id, revoked });
  }

  /** The garbage collector deletes the pods of a fleet that is gone. */
  #forgetFleet(name: string, engines: FleetFacts["engines"]): Again | undefined {
    for (const map of [this.#taken, this.#wroteAt]) map.delete(name);
    if (engines === undefined) return { requeueAfterMs: LOOK_MS.calm };
    for (const id of engines.keys()) if (id.startsWith(`${name}/`)) this.#forget(id, FORGET_DRAIN_MS);
    return undefined;
  }

  #cleanUp({ pods }: FleetFacts): void {
    const alive = new Set(this.#pods.all().map(({ metadata }) => metadata.uid));
    for (const { uid } of pods) alive.add(uid);
    for (const map of [this.#leaving, this.#offSince])
      for (const uid of map.keys()) if (!alive.has(uid)) map.delete(uid);
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

function unlessGone(error: unknown): undefined {
  if (WhetstoneError.from(error).code === "NOT_FOUND") return undefined;
  throw error;
}
