// SPDX-License-Identifier: Apache-2.0
import { randomUUID, X509Certificate } from "node:crypto";
import { durationFromMs } from "@bufbuild/protobuf/wkt";
import { sleep, WhetstoneError } from "@whetstone/core";
import { SandboxFate, type SandboxService } from "@whetstone/proto/sandboxes/v1/sandboxes";
import type { RpcClient } from "@whetstone/rpc";
import {
  type ClaimedPod,
  type ClaimOptions,
  type HostFate,
  type PodClaims,
  type PoolFacts,
  SandboxError,
} from "@whetstone/sandbox";
import { selfSigned } from "@whetstone/tls/issuer";

export type SandboxSource = Pick<
  RpcClient<typeof SandboxService>,
  "getSandboxPool" | "claimSandbox" | "releaseSandbox" | "getSandbox"
>;

export interface GrpcPodClaimsOptions {
  readonly source: SandboxSource;
  /** By its name, or by the image of its pods. */
  readonly pool: { readonly name: string } | { readonly image: string };
  /** Name of the pod that this process runs in. */
  readonly owner: string;
}

/** For a pool that has to make a pod, on a node that has to pull its image. */
const CLAIM_MS = 120_000;
const CALL_MS = 10_000;
const RELEASES = 3;
const DAYS = 8;

/** Of this process: what an earlier one of the same pod has claimed, the controller deletes. */
const INSTANCE = randomUUID();

/** Pods of one pool (`pool` is called before the first `claim`), by the controller's SandboxService. The key of a claim is made here, and goes nowhere. */
export class GrpcPodClaims implements PodClaims {
  readonly #options: GrpcPodClaimsOptions;
  #name: string;

  constructor(options: GrpcPodClaimsOptions) {
    this.#options = options;
    this.#name = "name" in options.pool ? options.pool.name : "";
  }

  async pool(signal?: AbortSignal): Promise<PoolFacts> {
    const { source, pool } = this.#options;
    const call = source.getSandboxPool(pool, { signal, deadlineMs: CALL_MS });
    const { name, image, imageFolders, memoryMib: memoryMiB, cpus, diskMib: diskMiB } = await call.catch(asUnavailable);
    this.#name = name;
    return { name, image, imageFolders, memoryMiB, cpus, diskMiB };
  }

  async claim({ ttlMs, withAnother, beside, signal }: ClaimOptions): Promise<ClaimedPod> {
    const { source, owner } = this.#options;
    const pool = this.#name;
    const { cert: certificate, key } = selfSigned("episode", { from: new Date(), days: DAYS });
    const certificateFingerprint = new X509Certificate(certificate).fingerprint256.replaceAll(":", "").toLowerCase();
    const id = randomUUID();
    const together = { withAnother: withAnother ?? false, besideClaimId: beside ?? "" };
    const request = { claimId: id, pool, ttl: durationFromMs(ttlMs), certificateFingerprint, ...together };
    try {
      const options = { signal, deadlineMs: CLAIM_MS };
      const given = await source.claimSandbox({ ...request, owner, ownerInstance: INSTANCE }, options);
      return { id, address: given.address, serverCertificate: given.certificate, certificate, key };
    } catch (error) {
      void this.release(id).catch(() => undefined); // Whether it was given away is not known.
      if (signal?.aborted) throw error;
      return asUnavailable(error);
    }
  }

  /** What cannot be said to the controller now, it finds out by the time to live. */
  async release(claimId: string): Promise<void> {
    for (let attempt = 1; ; attempt += 1) {
      try {
        await this.#options.source.releaseSandbox({ claimId }, { deadlineMs: CALL_MS });
        return;
      } catch (error) {
        if (attempt === RELEASES) throw WhetstoneError.from(error);
      }
      await sleep(attempt * 1000);
    }
  }

  async fate(claimId: string): Promise<HostFate> {
    const { fate, message } = await this.#options.source.getSandbox({ claimId }, { deadlineMs: CALL_MS });
    return fateOf(fate, message);
  }
}

function fateOf(fate: SandboxFate, message: string): HostFate {
  switch (fate) {
    case SandboxFate.MEMORY:
      return { kind: "limit", failure: "MEMORY" };
    case SandboxFate.DISK:
      return { kind: "limit", failure: "DISK" };
    case SandboxFate.EXPIRED:
      return { kind: "expired" };
    case SandboxFate.GONE:
      return { kind: "gone", why: message };
    case SandboxFate.THERE:
    case SandboxFate.UNSPECIFIED:
      return { kind: "there" };
  }
}

function asUnavailable(error: unknown): never {
  const { code, message } = WhetstoneError.from(error);
  const why = code === "DEADLINE_EXCEEDED" ? `no pod was free or ready within ${CLAIM_MS / 1000} s` : message;
  throw new SandboxError("UNAVAILABLE", why, { cause: error });
}
