// SPDX-License-Identifier: Apache-2.0
import { WhetstoneError } from "@whetstone/core";
import { type Draft, type Kube, type Pod, PODS } from "@whetstone/kube";
import { SERVING_GATE, type StoredFleet } from "./schema.ts";
import type { FleetPlan } from "./plan.ts";
import { enginePod } from "./pods.ts";
import { unlessGone } from "../gone.ts";

/** Makes the pods of engines and writes their readiness gates. */
export class EnginePods {
  readonly #kube: Kube;
  /** Names of wanted pods that are somebody else's, by fleet. */
  readonly #taken = new Map<string, Set<string>>();

  constructor(kube: Kube) {
    this.#kube = kube;
  }

  /** @returns the name of the pod that was made; undefined: one of its name is there */
  async create(fleet: StoredFleet, ordinal: number, signal: AbortSignal): Promise<string | undefined> {
    const draft = enginePod(fleet, ordinal);
    const podName = draft.metadata.name ?? "";
    try {
      await this.#kube.create(PODS, draft, { signal });
      return podName;
    } catch (error) {
      if (WhetstoneError.from(error).code !== "ALREADY_EXISTS") throw error;
      const there = await this.#kube.get(PODS, podName, { signal });
      const ours = there === undefined || there.metadata.ownerReferences?.some(({ uid }) => uid === fleet.metadata.uid);
      if (!ours) this.#takenOf(fleet.metadata.name).add(podName);
      return undefined;
    }
  }

  /** Names that somebody else's pods still have. */
  async taken(fleet: string, signal: AbortSignal): Promise<string[]> {
    const taken = this.#takenOf(fleet);
    for (const pod of taken) if (!(await this.#kube.get(PODS, pod, { signal }))) taken.delete(pod);
    return [...taken];
  }

  forget(fleet: string): void {
    this.#taken.delete(fleet);
  }

  async writeGate({ pod, ready, message }: FleetPlan["gates"][number], signal: AbortSignal): Promise<void> {
    const status = ready ? "True" : "False";
    const condition = { type: SERVING_GATE, status, reason: ready ? "Serving" : "NotServing", message };
    const lastTransitionTime = new Date().toISOString();
    // Its other conditions are the kubelet's: with server-side apply this one is added to the list.
    const conditions = [{ ...condition, lastTransitionTime }];
    const draft = { metadata: { name: pod.name }, status: { conditions } } as Draft<Pod>;
    await this.#kube.applyStatus(PODS, draft, { signal }).catch(unlessGone);
  }

  #takenOf(fleet: string): Set<string> {
    const known = this.#taken.get(fleet) ?? new Set();
    this.#taken.set(fleet, known);
    return known;
  }
}
