// SPDX-License-Identifier: Apache-2.0
/** Reconciles InferenceFleet: its pods, what the gateway knows of them, readiness, status. The decisions are in plan.ts. */
import { type Again, type Pod, PODS, type Stored } from "@whetstone/kube";
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
import { type Look, ObjectReconciler } from "../object-reconciler.ts";
import type { OperatorParts } from "../parts.ts";

/** How often a fleet is looked at: engines and gateway do not report by themselves. */
const LOOK_MS = { busy: 1_000, calm: 5_000 } as const;

export async function startInferenceFleets(parts: OperatorParts, signal: AbortSignal): Promise<AsyncDisposable> {
  const fleets = new Fleets(parts, signal);
  await fleets.start();
  return fleets;
}

class Fleets extends ObjectReconciler<InferenceFleet> {
  readonly #probe: EngineProbe;
  readonly #scheme: "http" | "https";
  readonly #departures: EngineDepartures;
  readonly #enginePods: EnginePods;
  readonly #demand: Demand;
  readonly #pods = this.watch(PODS, {
    labels: LABELS.fleet,
    indexBy: fleetOf,
    onChange: (_, pod) => this.enqueue(fleetOf(pod) ?? ""),
  });
  /** Since when a pod is not at the wanted version, by uid, milliseconds. */
  readonly #offSince = new Map<string, number>();

  constructor(parts: OperatorParts, signal: AbortSignal) {
    super(parts, signal, { name: "inference-fleet", type: INFERENCE_FLEETS });
    this.#scheme = parts.tls ? "https" : "http";
    this.#probe = new EngineProbe(parts.tls && connectorTo(parts.tls.to("engine")));
    this.#enginePods = new EnginePods(parts.kube);
    this.#demand = this.resources.use(new Demand(parts, signal));
    this.#departures = new EngineDepartures(parts, signal, {
      onLeave: (fleet, message) => this.tell(fleet, "Draining", message),
      onDone: (fleet) => this.enqueue(fleet),
    });
  }

  /** Looks that still run ask engines. */
  override async [Symbol.asyncDispose](): Promise<void> {
    await super[Symbol.asyncDispose]();
    await this.#probe[Symbol.asyncDispose]();
  }

  protected async look(stored: StoredFleet, signal: AbortSignal): Promise<Look<InferenceFleet>> {
    const engines = await this.#engines(signal);
    const need = stored.spec.onDemand ? await this.#demand.now(signal) : undefined;
    const fleet = fleetFor(stored, need);
    const idle = stored.spec.onDemand && !need;
    const facts = await this.#facts(fleet, engines, signal);
    const desired = { name: fleet.metadata.name, spec: fleet.spec, template: templateHash(fleet.spec), idle };
    const plan = planFleet(desired, facts);
    this.#noteOff(facts, plan);
    await this.#carryOut(fleet, facts, plan, signal);
    const calm = plan.conditions.every(({ type, status }) => (status === "True") === (type === "Ready"));
    return {
      status: fleetStatus(fleet, facts, plan),
      requeueAfterMs: calm && !idle ? LOOK_MS.calm : LOOK_MS.busy,
    };
  }

  protected async forget(name: string, signal: AbortSignal): Promise<Again | undefined> {
    const engines = await this.#engines(signal);
    this.#enginePods.forget(name);
    if (engines === undefined) return { requeueAfterMs: LOOK_MS.calm };
    for (const id of engines.keys()) if (id.startsWith(`${name}/`)) this.#departures.forget(id);
    return undefined;
  }

  async #engines(signal: AbortSignal): Promise<Map<string, EngineFact> | undefined> {
    try {
      const { engines } = await this.parts.fleetClient.listEngines({}, { signal, deadlineMs: 5_000 });
      return new Map(engines.map((engine) => [engine.id, engineFact(engine)]));
    } catch (error) {
      this.parts.logger.debug("gateway_not_asked", { error });
      return undefined;
    }
  }

  async #facts(fleet: StoredFleet, engines: FleetFacts["engines"], signal: AbortSignal): Promise<FleetFacts> {
    const { name } = fleet.metadata;
    const pods = this.#pods.by(name).flatMap((pod) => podFact(pod) ?? []);
    const { fleet: all } = this.parts;
    return {
      pods,
      engines,
      probes: await this.#probes(pods, signal),
      jobs: all.wanted.map(({ job }) => job),
      wantedOf: (engine) => {
        const policy = all.wantedOf(engine);
        return policy && { name: policy.job, version: Number(policy.policyVersion) };
      },
      leaving: this.#departures.leaving,
      offSince: this.#offSince,
      now: Date.now(),
      canGroup: fleet.spec.nodesPerReplica > 1 && (await this.parts.kube.has(LEADER_WORKER_SETS, { signal })),
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
    const { fleetClient } = this.parts;
    for (const engine of plan.register) await fleetClient.registerEngine(engine, { signal });
    for (const id of plan.forget) this.#departures.forget(id);
    for (const id of plan.late) this.parts.fleet.abandonLate(id, fleet.spec.updateTimeoutSeconds * 1000);
    for (const pod of plan.leave) this.#departures.sendAway(fleet, pod);
    for (const ordinal of plan.create) await this.#createPod(fleet, ordinal, signal);
    for (const gate of plan.gates) await this.#enginePods.writeGate(gate, signal);
    if (plan.groups !== undefined)
      await this.parts.kube.apply(LEADER_WORKER_SETS, leaderWorkerSet(fleet, plan.groups), { signal });
    this.#cleanUp(facts);
  }

  async #createPod(fleet: StoredFleet, ordinal: number, signal: AbortSignal): Promise<void> {
    const made = await this.#enginePods.create(fleet, ordinal, signal);
    if (made !== undefined) this.tell(fleet, "PodCreated", `made the pod ${made}`);
  }

  #cleanUp({ pods }: FleetFacts): void {
    const alive = new Set(this.#pods.all().map(({ metadata }) => metadata.uid));
    for (const { uid } of pods) alive.add(uid);
    this.#departures.keepOnly(alive);
    for (const uid of this.#offSince.keys()) if (!alive.has(uid)) this.#offSince.delete(uid);
  }
}

function fleetOf(pod: Stored<Pod>): string | undefined {
  return pod.metadata.labels?.[LABELS.fleet];
}
