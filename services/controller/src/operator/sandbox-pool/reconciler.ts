// SPDX-License-Identifier: Apache-2.0
/** Reconciles SandboxPool: pods that wait to be claimed, the end of those whose claim is over, its network policy, its status. */
import { WhetstoneError } from "@whetstone/core";
import { type Pod, PODS, type Reflector } from "@whetstone/kube";
import { unlessGone, unlessOther } from "../gone.ts";
import { type Look, ObjectReconciler } from "../object-reconciler.ts";
import type { OperatorParts } from "../parts.ts";
import { shortPass } from "../short-pass.ts";
import { SANDBOX_CLAIMS, sandboxClaimName } from "./agent-sandbox.ts";
import { makeIdentity } from "./identity.ts";
import { poolPolicy } from "./network-policy.ts";
import { planSandboxes, type SandboxPlan } from "./plan.ts";
import { SANDBOX_LABELS, sandboxFact, sandboxPod, type SandboxPod, sandboxTemplateHash, warmPodName } from "./pods.ts";
import { NETWORK_POLICIES, SANDBOX_POOLS, type SandboxPool, type StoredSandboxPool } from "./schema.ts";
import { serveByAgentSandbox, type Served } from "./serve-by-agent-sandbox.ts";
import { sandboxStatus } from "./status.ts";

/** Without a change: claims end by the clock. */
const LOOK_MS = 2_000;
/** Changes of pods come in bursts; one look answers many. */
const GATHER_MS = 50;
/** Pods that are changed at once, and for how long before the next pool has its turn. */
const PASS = { atOnce: 8, ms: 500 } as const;

export type SandboxParts = Pick<OperatorParts, "kube" | "config" | "logger" | "metrics">;

const NONE = { [Symbol.asyncDispose]: () => Promise.resolve() };

export async function startSandboxPools(parts: OperatorParts, signal: AbortSignal): Promise<AsyncDisposable> {
  const { kube, config, logger } = parts;
  if (config.sandboxImage === undefined) return NONE;
  if (!(await kube.has(SANDBOX_POOLS, { signal }))) {
    logger.warn("no_sandbox_pools", { reason: "the cluster does not know the kind SandboxPool: apply the CRDs" });
    return NONE;
  }
  const pools = new SandboxPools(parts, signal, config.sandboxImage);
  await pools.start();
  return pools;
}

class SandboxPools extends ObjectReconciler<SandboxPool> {
  readonly #image: string;
  readonly #pods: Reflector<Pod>;
  readonly #owners: Reflector<Pod>;
  /** Pools whose policy was written, by uid and generation. */
  readonly #policies = new Map<string, string>();

  constructor(parts: OperatorParts, signal: AbortSignal, image: string) {
    super(parts, signal, { name: "sandbox-pool", type: SANDBOX_POOLS });
    this.#image = image;
    this.#pods = this.watch(PODS, {
      labels: SANDBOX_LABELS.pool,
      indexBy: (pod) => pod.metadata.labels?.[SANDBOX_LABELS.pool],
      trim: ({ metadata, status }) => ({ metadata, ...(status && { status }) }),
      onChange: (_, pod) => this.enqueueAfter(pod.metadata.labels?.[SANDBOX_LABELS.pool] ?? "", GATHER_MS),
    });
    // Claims are made by pods that are none of a sandbox pool.
    this.#owners = this.watch(PODS, {
      labels: `!${SANDBOX_LABELS.pool}`,
      trim: ({ metadata: { name, uid, resourceVersion } }) => ({ metadata: { name, uid, resourceVersion } }),
      onChange: () => undefined,
    });
  }

  protected async look(pool: StoredSandboxPool, signal: AbortSignal): Promise<Look<SandboxPool>> {
    const { name } = pool.metadata;
    const now = Date.now();
    await this.#writePolicy(pool, signal);
    const pods = this.#pods.by(name).flatMap((pod) => sandboxFact(pod) ?? []);
    const { warm, max } = pool.spec;
    const desired = { warm, max, template: sandboxTemplateHash(pool.spec, this.#image) };
    const gone = await this.#goneOwners(pods, signal);
    const isThere = (owner: string): boolean => !gone.has(owner);
    const plan = planSandboxes(desired, { pods, isThere, now });
    const left = await shortPass(plan.remove, PASS, (pod) => this.#remove(pod, signal));
    const served = await this.#serve(pool, plan, signal);
    const status = sandboxStatus(pool, plan, { ...served, now });
    return { status, requeueAfterMs: left > 0 ? GATHER_MS : LOOK_MS };
  }

  protected forget(name: string): Promise<void> {
    this.#policies.delete(name);
    return Promise.resolve();
  }

  /** The watch may be late with a pod that has just come: only the API server can say that one is not there. */
  async #goneOwners(pods: readonly SandboxPod[], signal: AbortSignal): Promise<Set<string>> {
    const owners = new Set(pods.flatMap(({ claim }) => claim?.owner || []));
    const gone = new Set<string>();
    for (const owner of owners)
      if (!this.#owners.get(owner) && !(await this.parts.kube.get(PODS, owner, { signal }))) gone.add(owner);
    return gone;
  }

  async #writePolicy(pool: StoredSandboxPool, signal: AbortSignal): Promise<void> {
    const { name, uid, generation = 0 } = pool.metadata;
    const version = `${uid}/${generation}`;
    if (this.#policies.get(name) === version) return;
    await this.parts.kube.apply(NETWORK_POLICIES, poolPolicy(pool), { signal });
    this.#policies.set(name, version);
  }

  /** One that has been claimed since is another version, and stays. */
  async #remove({ name, uid, resourceVersion, claim, ofSandbox }: SandboxPod, signal: AbortSignal): Promise<void> {
    const which = claim === undefined ? { uid, resourceVersion } : { uid };
    const { kube } = this.parts;
    if (!ofSandbox) await kube.delete(PODS, name, { ...which, signal }).catch(unlessOther);
    else if (claim !== undefined)
      await kube.delete(SANDBOX_CLAIMS, sandboxClaimName(claim.id), { signal }).catch(unlessGone);
    // What is warm, and how much of it, agent-sandbox's warm pool decides.
    if (claim !== undefined) this.parts.logger.info("sandbox_reaped", { pod: name, claim: claim.id });
  }

  async #serve(pool: StoredSandboxPool, plan: SandboxPlan, signal: AbortSignal): Promise<Served> {
    if (pool.spec.provider !== "agentSandbox")
      return { refused: await this.#create(pool, plan, signal), isAbsent: false };
    const wanted = { image: this.#image, claimed: plan.claimed.length };
    return await serveByAgentSandbox(this.parts.kube, pool, wanted, signal);
  }

  /** @returns why one was refused; empty: none was */
  async #create(pool: StoredSandboxPool, { create }: SandboxPlan, signal: AbortSignal): Promise<string> {
    let refused = "";
    await shortPass(create, PASS, async (ordinal) => {
      if (refused !== "") return;
      const name = warmPodName(pool.metadata.name, ordinal);
      const draft = sandboxPod(pool, { name, daemonImage: this.#image, identity: makeIdentity() });
      try {
        await this.parts.kube.create(PODS, draft, { signal });
      } catch (error) {
        const { code, message } = WhetstoneError.from(error);
        if (code === "INVALID_ARGUMENT" || code === "PERMISSION_DENIED") refused = message;
        else if (code !== "ALREADY_EXISTS") throw error; // It was made, and the watch will show it.
      }
    });
    if (refused !== "") this.tell(pool, "PodRefused", refused);
    return refused;
  }
}
