// SPDX-License-Identifier: Apache-2.0
/** Gives pods of sandbox pools away. Every replica does: what is claimed stands on the pods themselves. */
import { Deadline, WhetstoneError } from "@whetstone/core";
import { type Kube, type Pod, PODS, type Stored } from "@whetstone/kube";
import type { Logger, Metrics } from "@whetstone/telemetry";
import { unlessOther } from "../operator/gone.ts";
import { makeIdentity } from "../operator/sandbox-pool/identity.ts";
import {
  type Claim,
  claimLabels,
  claimNotes,
  coldPodName,
  identityOf,
  isForGood,
  SANDBOX_LABELS,
  sandboxFact,
  sandboxPod,
  type SandboxPod,
} from "../operator/sandbox-pool/pods.ts";
import type { StoredSandboxPool } from "../operator/sandbox-pool/schema.ts";
import { AgentSandboxClaims } from "./agent-sandbox-claims.ts";
import { type ClaimRequest, requireRoom } from "./claim-request.ts";
import { daemonAddress, handOver } from "./daemon.ts";
import { KeptRoom } from "./kept-room.ts";
import { PodCache } from "./pod-cache.ts";

// C1: a pod is given away once: a claim is a change of the version of the pod that was seen, and the API server takes one such
// change only. C2: the same claim gets the same pod, also from another replica: the pod carries its number.

type WantedPod = Claim & Pick<ClaimRequest, "withAnother" | "beside">;

export interface ClaimedSandbox {
  readonly address: string;
  readonly certificate: string;
}

export interface SandboxClaimsOptions {
  readonly kube: Kube;
  readonly daemonImage: string;
  readonly logger: Logger;
  readonly metrics: Metrics;
}

/** For a pod that is ready. */
const GIVE_MS = 5_000;
/** For a pod that has to be made, on a node that has to pull its image. */
const START_MS = 120_000;
/** A pod that is ready answers at once; one that does not is given up for another. */
const HANDOVER_MS = 5_000;

export class SandboxClaims implements Disposable {
  readonly #options: SandboxClaimsOptions;
  readonly #cache: PodCache;
  readonly #agentSandbox: AgentSandboxClaims;
  /** Pods that were given away here, before the watch shows it, by uid. */
  readonly #taken = new Set<string>();
  /** Names of pods that are being made here, with their pools. */
  readonly #making = new Map<string, string>();
  readonly #kept = new KeptRoom();
  /** Pods that make claims. */
  readonly #owners = new Set<string>();
  readonly #instances = new Map<string, string>();
  readonly #seconds;

  constructor(options: SandboxClaimsOptions) {
    this.#options = options;
    this.#cache = new PodCache(options.kube);
    this.#agentSandbox = new AgentSandboxClaims(options.kube);
    this.#seconds = options.metrics.histogram("sandbox_claim_seconds", "Time until a sandbox's pod was given away");
  }

  /** @throws NOT_FOUND */
  async pool(name: string): Promise<StoredSandboxPool> {
    await this.#cache.synced();
    const pool = this.#cache.pools.get(name);
    if (pool) return pool;
    const known = this.#cache.pools.all().map(({ metadata }) => metadata.name);
    throw new WhetstoneError("NOT_FOUND", `there is no sandbox pool "${name}"; known: ${known.join(", ") || "none"}`);
  }

  /** Of several with the same image the first by name. @throws NOT_FOUND */
  async poolOf(image: string): Promise<StoredSandboxPool> {
    await this.#cache.synced();
    const all = [...this.#cache.pools.all()].sort((a, b) => (a.metadata.name < b.metadata.name ? -1 : 1));
    const pool = all.find(({ spec }) => spec.image === image);
    if (pool) return pool;
    const known = all.map(({ metadata, spec }) => `${metadata.name} (${spec.image})`).join(", ") || "none";
    throw new WhetstoneError(
      "NOT_FOUND",
      `no sandbox pool has the image "${image}": make one with it; known: ${known}`,
    );
  }

  /** Waits for a pod until the signal aborts. */
  async claim(request: ClaimRequest, signal: AbortSignal): Promise<ClaimedSandbox> {
    const startedAt = performance.now();
    const pool = await this.pool(request.pool);
    requireRoom(pool, request);
    const owner = await this.#ownerOf(request);
    this.#endFormerInstance({ ...request, owner });
    const ttlMs = Math.min(request.ttlMs, pool.spec.ttlSeconds * 1000);
    try {
      for (;;) {
        // Its time begins when it is given, and its daemon ends it then; this is for one whose daemon does not.
        const claim = { ...request, owner, until: Date.now() + GIVE_MS + ttlMs };
        const pod = await this.#take(pool, claim, signal);
        const given = pod && (await this.#give(pod, { ...request, ttlMs }, signal));
        if (given) {
          this.#kept.giveUp(request.beside);
          this.#seconds.observe((performance.now() - startedAt) / 1000);
          return given;
        }
        signal.throwIfAborted();
        await this.#cache.changed(signal);
      }
    } catch (error) {
      this.#kept.giveUp(request.id);
      throw error;
    }
  }

  async release(id: string): Promise<void> {
    this.#kept.giveUp(id);
    const pod = await this.find(id);
    if (pod) await this.#delete(pod);
    else if (this.#cache.pools.all().some(({ spec }) => spec.provider === "agentSandbox"))
      await this.#agentSandbox.withdraw(id);
  }

  /** The pod of a claim, also when another replica gave it away just now. */
  async find(id: string): Promise<SandboxPod | undefined> {
    await this.#cache.synced();
    const seen = this.#cache.all().find(({ claim }) => claim?.id === id);
    if (seen?.given) return seen;
    const [pod] = await this.#options.kube.list(PODS, { labels: `${SANDBOX_LABELS.claim}=${id}` });
    return (pod && sandboxFact(pod)) ?? seen;
  }

  [Symbol.dispose](): void {
    this.#cache[Symbol.dispose]();
  }

  /** What is no pod of this cluster cannot be watched; then the time to live alone ends the claim. */
  async #ownerOf({ owner }: ClaimRequest): Promise<string> {
    if (owner === "" || this.#owners.has(owner)) return owner;
    if ((await this.#options.kube.get(PODS, owner)) === undefined) return "";
    this.#owners.add(owner);
    return owner;
  }

  /** A process that begins anew in the same pod has left what the former one had. */
  #endFormerInstance({ owner, instance }: Pick<Claim, "owner" | "instance">): void {
    if (owner === "" || this.#instances.get(owner) === instance) return;
    this.#instances.set(owner, instance);
    for (const pod of this.#cache.all())
      if (pod.claim?.owner === owner && pod.claim.instance !== instance)
        this.#delete(pod).catch((error: unknown) => this.#options.logger.warn("sandbox_not_deleted", { error }));
  }

  /** The pod that the claim has, one that is warm, or a new one. Undefined: the pool has all that it may have. */
  async #take(pool: StoredSandboxPool, claim: WantedPod, signal: AbortSignal): Promise<Stored<Pod> | undefined> {
    const { name } = pool.metadata;
    const all = this.#cache.of(name);
    const own = all.find((pod) => pod.claim?.id === claim.id && !pod.terminating);
    if (own) return this.#cache.stored(own.name);
    const isOfAgentSandbox = pool.spec.provider === "agentSandbox";
    const warm = isOfAgentSandbox ? [] : all.filter((pod) => isWarm(pod) && !this.#taken.has(pod.uid));
    const room = pool.spec.max - (isOfAgentSandbox ? this.#agentSandbox.claimed(name, all) : this.#alive(name, all));
    const wanted = 1 + Number(claim.withAnother) + this.#kept.forOthers(name, [claim.id, claim.beside]);
    if (warm.length + Math.max(0, room) < wanted) return undefined;
    if (claim.withAnother) this.#kept.keep(claim.id, name);
    if (isOfAgentSandbox) return await this.#agentSandbox.ask(pool, later(claim), signal);
    for (const pod of warm) {
      const taken = await this.#mark(pod, claim, signal);
      if (taken) return taken;
    }
    if (this.#alive(name, this.#cache.of(name)) < pool.spec.max) return await this.#make(pool, claim, signal);
    this.#kept.giveUp(claim.id);
    return undefined;
  }

  #alive(pool: string, all: readonly SandboxPod[]): number {
    const alive = new Set(all.filter(({ ended }) => ended === undefined).map(({ name }) => name));
    for (const name of this.#madeFor(pool, alive)) alive.add(name);
    return alive.size;
  }

  /** Pods that were made here, and which the watch does not show yet. */
  #madeFor(pool: string, seen: ReadonlySet<string>): string[] {
    for (const name of this.#making.keys()) if (seen.has(name)) this.#making.delete(name);
    return [...this.#making].filter(([, each]) => each === pool).map(([name]) => name);
  }

  /** C1 */
  async #mark(pod: SandboxPod, claim: Claim, signal: AbortSignal): Promise<Stored<Pod> | undefined> {
    const { resourceVersion, uid, name, startedAt } = pod;
    this.#taken.add(uid);
    const metadata = { uid, resourceVersion, labels: claimLabels(claim), annotations: claimNotes(claim) };
    const activeDeadlineSeconds = Math.ceil((claim.until - startedAt) / 1000);
    const patch = { metadata, spec: { activeDeadlineSeconds } };
    try {
      return await this.#options.kube.patch(PODS, name, patch, { signal });
    } catch (error) {
      this.#taken.delete(uid);
      return unlessOther(error);
    }
  }

  /** C2: by its name, a pod is made once for a claim. */
  async #make(pool: StoredSandboxPool, claim: Claim, signal: AbortSignal): Promise<Stored<Pod> | undefined> {
    const { kube, daemonImage } = this.#options;
    const name = coldPodName(pool.metadata.name, claim.id);
    const draft = sandboxPod(pool, { name, daemonImage, identity: makeIdentity(), claim: later(claim) });
    this.#making.set(name, pool.metadata.name);
    try {
      return await kube.create(PODS, draft, { signal });
    } catch (error) {
      this.#making.delete(name);
      if (WhetstoneError.from(error).code !== "ALREADY_EXISTS") throw error;
      return await kube.get(PODS, name, { signal });
    }
  }

  /** @returns undefined when that pod came to nothing, and is gone */
  async #give(taken: Stored<Pod>, request: ClaimRequest, signal: AbortSignal): Promise<ClaimedSandbox | undefined> {
    const pod = await this.#ready(taken, signal);
    if (!pod?.claim) return undefined;
    const identity = identityOf(taken);
    const { fingerprint, ttlMs } = request;
    using deadline = Deadline.after(HANDOVER_MS, signal);
    try {
      await handOver({ ip: pod.ip, identity, fingerprint, ttlMs }, deadline.signal);
      if (pod.ofSandbox) await this.#agentSandbox.markGiven(pod, deadline.signal);
    } catch (error) {
      signal.throwIfAborted();
      this.#options.logger.warn("sandbox_not_given", { pod: pod.name, error });
      await this.#delete(pod);
      return undefined;
    }
    return { address: daemonAddress(pod.ip), certificate: identity.certificate };
  }

  /** @throws FAILED_PRECONDITION for one that will not be ready by itself */
  async #ready(taken: Stored<Pod>, signal: AbortSignal): Promise<SandboxPod | undefined> {
    for (let seen = sandboxFact(taken); ; seen = this.#seen(taken)) {
      if (seen?.ready) return seen;
      if (seen?.terminating) return undefined;
      if (seen && isForGood(seen.trouble)) {
        await this.#delete(seen);
        const what = `pods of sandbox pool "${seen.pool}" do not start: ${seen.trouble}`;
        throw new WhetstoneError("FAILED_PRECONDITION", what);
      }
      if (seen?.ended) return undefined;
      signal.throwIfAborted();
      await this.#cache.changed(signal);
    }
  }

  /** Undefined: the watch does not show it yet. */
  #seen({ metadata: { name, uid } }: Stored<Pod>): SandboxPod | undefined {
    const stored = this.#cache.stored(name);
    return stored?.metadata.uid === uid ? sandboxFact(stored) : undefined;
  }

  async #delete({ name, uid, claim, ofSandbox }: SandboxPod): Promise<void> {
    if (ofSandbox && claim) return await this.#agentSandbox.withdraw(claim.id);
    await this.#options.kube.delete(PODS, name, { uid }).catch(unlessOther);
    this.#taken.delete(uid);
    this.#making.delete(name);
  }
}

/** One whose pod has yet to be made. */
function later(claim: Claim): Claim {
  return { ...claim, until: claim.until + START_MS };
}

function isWarm({ ready, claim, terminating, ended, ip }: SandboxPod): boolean {
  return ready && claim === undefined && !terminating && ended === undefined && ip !== "";
}
