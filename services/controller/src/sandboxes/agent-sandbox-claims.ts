// SPDX-License-Identifier: Apache-2.0
/** Claims of pools that agent-sandbox serves: it chooses a pod for each, notes the claim on it, and keeps it until the claim goes. */
import { WhetstoneError } from "@whetstone/core";
import { type Kube, PODS } from "@whetstone/kube";
import { unlessGone } from "../operator/gone.ts";
import {
  NO_AGENT_SANDBOX,
  SANDBOX_CLAIMS,
  sandboxClaim,
  sandboxClaimName,
} from "../operator/sandbox-pool/agent-sandbox.ts";
import { type Claim, claimLabels, type SandboxPod } from "../operator/sandbox-pool/pods.ts";
import type { StoredSandboxPool } from "../operator/sandbox-pool/schema.ts";

interface Asked {
  readonly pool: string;
  readonly at: number;
}

/** Whoever asked has given up by then. */
const ASKED_MS = 120_000;

export class AgentSandboxClaims {
  readonly #kube: Kube;
  /** Claims whose pods are not seen yet. */
  readonly #asked = new Map<string, Asked>();

  constructor(kube: Kube) {
    this.#kube = kube;
  }

  /** Pods of a pool that are claimed, and those that were asked for. */
  claimed(pool: string, pods: readonly SandboxPod[]): number {
    this.#forget(pods);
    const there = pods.filter((pod) => pod.claim !== undefined && pod.ended === undefined).length;
    return there + [...this.#asked.values()].filter((each) => each.pool === pool).length;
  }

  /**
   * Asks for a pod, once for a claim (C2; C1 is agent-sandbox's own promise).
   * @throws FAILED_PRECONDITION where the cluster has no agent-sandbox
   */
  async ask(pool: StoredSandboxPool, claim: Claim, signal: AbortSignal): Promise<undefined> {
    const { name } = pool.metadata;
    if (this.#asked.has(claim.id)) return undefined;
    this.#asked.set(claim.id, { pool: name, at: Date.now() });
    try {
      await this.#kube.create(SANDBOX_CLAIMS, sandboxClaim(pool, claim), { signal });
    } catch (error) {
      const { code } = WhetstoneError.from(error);
      if (code !== "ALREADY_EXISTS" || (await this.#isLeaving(claim.id, signal))) this.#asked.delete(claim.id);
      if (code === "NOT_FOUND")
        throw new WhetstoneError("FAILED_PRECONDITION", `sandbox pool "${name}": ${NO_AGENT_SANDBOX}`);
      if (code !== "ALREADY_EXISTS") throw error;
    }
    return undefined;
  }

  /** A pod that agent-sandbox makes in its place, should it go, has not this mark: nobody takes that one for this one. */
  async markGiven({ name, uid, startedAt, claim }: SandboxPod, signal: AbortSignal): Promise<void> {
    if (claim === undefined) return;
    const activeDeadlineSeconds = Math.ceil((claim.until - startedAt) / 1000);
    const patch = { metadata: { uid, labels: claimLabels(claim) }, spec: { activeDeadlineSeconds } };
    await this.#kube.patch(PODS, name, patch, { signal });
  }

  /** With its pod, bound or not. Harmless twice. */
  async withdraw(id: string): Promise<void> {
    await this.#kube.delete(SANDBOX_CLAIMS, sandboxClaimName(id)).catch(unlessGone);
    this.#asked.delete(id);
  }

  /** One of the same name that is being deleted is no answer: asked again, another can be made. */
  async #isLeaving(id: string, signal: AbortSignal): Promise<boolean> {
    const there = await this.#kube.get(SANDBOX_CLAIMS, sandboxClaimName(id), { signal });
    return there === undefined || there.metadata.deletionTimestamp !== undefined;
  }

  #forget(pods: readonly SandboxPod[]): void {
    const bound = new Set(pods.map(({ claim }) => claim?.id));
    const before = Date.now() - ASKED_MS;
    for (const [id, { at }] of this.#asked) if (bound.has(id) || at < before) this.#asked.delete(id);
  }
}
