// SPDX-License-Identifier: Apache-2.0
import { durationFromMs } from "@bufbuild/protobuf/wkt";
import { PODS } from "@whetstone/kube";
import { engineId, type StoredFleet } from "./schema.ts";
import type { PodFact } from "./state.ts";
import type { OperatorParts } from "../parts.ts";

/** What an engine that is gone may still be answering with: nothing that is worth a wait. */
const FORGET_DRAIN_MS = 2_000;

export interface DepartureListener {
  /** An engine begins to leave. */
  onLeave(fleet: StoredFleet, message: string): void;
  /** It has left, or could not. */
  onDone(fleet: string): void;
}

/** Engines that leave: the gateway drains them first, in the background, then their pod goes. */
export class EngineDepartures {
  readonly #parts: OperatorParts;
  readonly #signal: AbortSignal;
  readonly #listener: DepartureListener;
  /** Pods whose engine is drained, by uid. A successor drains again: that is harmless. */
  readonly #leaving = new Map<string, Promise<void>>();
  readonly #forgetting = new Set<string>();

  constructor(parts: OperatorParts, signal: AbortSignal, listener: DepartureListener) {
    this.#parts = parts;
    this.#signal = signal;
    this.#listener = listener;
  }

  /** Uids of pods that are on their way out. */
  get leaving(): ReadonlySet<string> {
    return new Set(this.#leaving.keys());
  }

  /** Drains the engine, then deletes its pod: calls end where they run, or go on elsewhere. */
  sendAway(fleet: StoredFleet, pod: PodFact): void {
    const done = this.#leave(fleet, pod).catch((error: unknown) => {
      this.#parts.logger.warn("engine_not_removed", { pod: pod.name, error });
      this.#leaving.delete(pod.uid); // The next look tries again.
    });
    this.#leaving.set(pod.uid, done);
    void done.finally(() => this.#listener.onDone(fleet.metadata.name));
  }

  /** An engine whose pod is gone: nothing is left to drain. */
  forget(id: string): void {
    if (this.#forgetting.has(id)) return;
    this.#forgetting.add(id);
    void this.#remove(id, FORGET_DRAIN_MS)
      .catch((error: unknown) => this.#parts.logger.warn("engine_not_forgotten", { engine: id, error }))
      .finally(() => this.#forgetting.delete(id));
  }

  /** @param alive  uids of all pods there are */
  keepOnly(alive: ReadonlySet<string>): void {
    for (const uid of this.#leaving.keys()) if (!alive.has(uid)) this.#leaving.delete(uid);
  }

  async #leave(fleet: StoredFleet, pod: PodFact): Promise<void> {
    const { drainSeconds, nodesPerReplica } = fleet.spec;
    this.#listener.onLeave(fleet, `${pod.name} leaves; its calls have ${drainSeconds} s`);
    await this.#remove(engineId(fleet.metadata.name, pod.name), drainSeconds * 1000);
    // Of several nodes a replica, LeaderWorkerSet deletes its own.
    if (nodesPerReplica === 1) await this.#parts.kube.delete(PODS, pod.name, { uid: pod.uid });
  }

  async #remove(id: string, drainMs: number): Promise<void> {
    this.#parts.fleet.abandon(id);
    const drain = durationFromMs(drainMs);
    const options = { signal: this.#signal, deadlineMs: drainMs + 15_000 };
    const { revoked } = await this.#parts.fleetClient.removeEngine({ id, drain }, options);
    this.#parts.logger.info("engine_removed", { engine: id, revoked });
  }
}
