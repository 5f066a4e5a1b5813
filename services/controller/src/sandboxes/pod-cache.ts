// SPDX-License-Identifier: Apache-2.0
import { sleep } from "@whetstone/core";
import { type Kube, type Pod, PODS, reflect, type Reflector, type Stored } from "@whetstone/kube";
import { SANDBOX_LABELS, sandboxFact, type SandboxPod } from "../operator/sandbox-pool/pods.ts";
import { SANDBOX_POOLS, type SandboxPool } from "../operator/sandbox-pool/schema.ts";

/** However long nothing is heard: whoever waits looks again. */
const LOOK_MS = 500;

/** Sandbox pools and their pods, as the watch shows them. */
export class PodCache implements Disposable {
  readonly pools: Reflector<SandboxPool>;
  readonly #pods: Reflector<Pod>;
  readonly #end = new AbortController();
  #change = Promise.withResolvers<void>();

  constructor(kube: Kube) {
    const { signal } = this.#end;
    const onChange = (): void => {
      this.#change.resolve();
      this.#change = Promise.withResolvers<void>();
    };
    this.pools = reflect(kube, SANDBOX_POOLS, { signal, onChange });
    const indexBy = (pod: Stored<Pod>): string | undefined => pod.metadata.labels?.[SANDBOX_LABELS.pool];
    this.#pods = reflect(kube, PODS, { signal, labels: SANDBOX_LABELS.pool, indexBy, onChange });
  }

  async synced(): Promise<void> {
    await Promise.all([this.pools.synced, this.#pods.synced]);
  }

  of(pool: string): SandboxPod[] {
    return this.#pods.by(pool).flatMap((pod) => sandboxFact(pod) ?? []);
  }

  all(): SandboxPod[] {
    return this.#pods.all().flatMap((pod) => sandboxFact(pod) ?? []);
  }

  stored(name: string): Stored<Pod> | undefined {
    return this.#pods.get(name);
  }

  /** @throws the signal's reason */
  async changed(signal: AbortSignal): Promise<void> {
    const over = new AbortController();
    await Promise.race([this.#change.promise, sleep(LOOK_MS, AbortSignal.any([signal, over.signal]))]).finally(() =>
      over.abort(),
    );
  }

  [Symbol.dispose](): void {
    this.#end.abort();
    this.pools[Symbol.dispose]();
    this.#pods[Symbol.dispose]();
  }
}
