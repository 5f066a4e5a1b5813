// SPDX-License-Identifier: Apache-2.0
import { Gate } from "@whetstone/core";
import { type Draft, type Kube, type Pod, PODS, type Stored } from "@whetstone/kube";
import type { RunnerPod } from "./plan.ts";
import { unlessOther } from "../gone.ts";
import type { PoolPods } from "./live-pods.ts";

/** Changes of pods at once, of all pools: more only wait in the API server, and others behind them. */
const AT_ONCE = 8;

/** Changes pods, some at once, and remembers each before the watch shows it. */
export class PodWrites {
  readonly #kube: Kube;
  readonly #pods: PoolPods;
  readonly #gate = new Gate(AT_ONCE, { maxQueued: Number.POSITIVE_INFINITY });

  constructor(kube: Kube, pods: PoolPods) {
    this.#kube = kube;
    this.#pods = pods;
  }

  /** @throws ALREADY_EXISTS, INVALID_ARGUMENT, PERMISSION_DENIED */
  create(draft: Draft<Pod>, signal: AbortSignal): Promise<void> {
    return this.#gate.run(async () => this.#note(await this.#kube.create(PODS, draft, { signal })), signal);
  }

  /** What is not there, or is another one of that name, is left alone. */
  async annotate(
    { name, uid }: RunnerPod,
    annotations: Readonly<Record<string, string | null>>,
    signal: AbortSignal,
  ): Promise<void> {
    const patch = { metadata: { uid, annotations } };
    const write = async (): Promise<void> => this.#note(await this.#kube.patch(PODS, name, patch, { signal }));
    await this.#gate.run(write, signal).catch(unlessOther);
  }

  async remove({ name, uid }: RunnerPod, signal: AbortSignal): Promise<void> {
    await this.#gate.run(() => this.#kube.delete(PODS, name, { uid, signal }), signal).catch(unlessOther);
  }

  /** Asks the server: ours, which the watch does not show yet; somebody else's; or none. */
  async whose(name: string, owner: string, signal: AbortSignal): Promise<"ours" | "another's" | "nobody's"> {
    const pod = await this.#kube.get(PODS, name, { signal });
    if (!pod) return "nobody's";
    if (!pod.metadata.ownerReferences?.some(({ uid }) => uid === owner)) return "another's";
    this.#note(pod);
    return "ours";
  }

  #note(pod: Stored<Pod>): void {
    this.#pods.note(pod, Date.now());
  }
}
