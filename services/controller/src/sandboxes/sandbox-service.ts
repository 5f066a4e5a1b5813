// SPDX-License-Identifier: Apache-2.0
import { durationMs } from "@bufbuild/protobuf/wkt";
import { requireRules } from "@whetstone/contract/check";
import { ClaimSandboxRequestSchema, SandboxService } from "@whetstone/proto/sandboxes/v1/sandboxes";
import { implement, type ServiceImplementation } from "@whetstone/rpc";
import { fateOf } from "./fate.ts";
import type { SandboxClaims } from "./sandbox-claims.ts";

/** Longest where the caller names none: the pool's own time is shorter. */
const TTL_MS = 604_800_000;

export function sandboxService(claims: SandboxClaims): ServiceImplementation {
  return implement(SandboxService, {
    getSandboxPool: async ({ name, image: wanted }) => {
      const { metadata, spec } = name === "" ? await claims.poolOf(wanted) : await claims.pool(name);
      const { memoryMiB, cpus, diskMiB, image, imageFolders } = spec;
      return { name: metadata.name, image, imageFolders, memoryMib: memoryMiB, cpus, diskMib: diskMiB };
    },
    claimSandbox: async (request, { signal }) => {
      requireRules(ClaimSandboxRequestSchema, request);
      const { claimId: id, ttl, certificateFingerprint: fingerprint, ownerInstance: instance } = request;
      const { pool, owner, withAnother, besideClaimId: beside } = request;
      const ttlMs = ttl ? durationMs(ttl) : TTL_MS;
      return await claims.claim({ id, pool, ttlMs, fingerprint, owner, instance, withAnother, beside }, signal);
    },
    releaseSandbox: async ({ claimId }) => {
      await claims.release(claimId);
      return {};
    },
    getSandbox: async ({ claimId }) => fateOf(await claims.find(claimId), Date.now()),
  });
}
