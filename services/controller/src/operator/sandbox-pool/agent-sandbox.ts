// SPDX-License-Identifier: Apache-2.0
/** What a pool with `provider: agentSandbox` is to kubernetes-sigs/agent-sandbox: a template, a warm pool, and a claim each. Pure. */
import { createHash, X509Certificate } from "node:crypto";
import { type Draft, type KubeObject, ownedBy, type Pod, resource, type Stored } from "@whetstone/kube";
import {
  type Claim,
  CLAIM_NOTES,
  claimNotes,
  identityIn,
  type PodIdentity,
  podLabels,
  podSpec,
  SANDBOX_LABELS,
} from "./pods.ts";
import { SANDBOX_POOLS, type StoredSandboxPool } from "./schema.ts";

const API = "extensions.agents.x-k8s.io/v1beta1";

export const NO_AGENT_SANDBOX =
  "the cluster does not know SandboxTemplate, SandboxWarmPool and SandboxClaim of extensions.agents.x-k8s.io/v1beta1: install kubernetes-sigs/agent-sandbox with its extensions (0.5.6 was tried), or make a pool with provider: pods";

export interface SandboxTemplate extends KubeObject {
  spec?: { readonly podTemplate: Pick<Pod, "spec"> };
}

export interface SandboxWarmPool extends KubeObject {
  spec?: { readonly replicas: number; readonly [field: string]: unknown };
}

export interface SandboxClaim extends KubeObject {
  spec?: object;
}

export const SANDBOX_TEMPLATES = resource<SandboxTemplate>(API, "SandboxTemplate", "sandboxtemplates");
export const SANDBOX_WARM_POOLS = resource<SandboxWarmPool>(API, "SandboxWarmPool", "sandboxwarmpools");
export const SANDBOX_CLAIMS = resource<SandboxClaim>(API, "SandboxClaim", "sandboxclaims");

/** All pods of a template show one certificate: it is made anew long before it ends. */
const RENEW_MS = 100 * 86_400_000;
/** Whoever has it, and our own look at the pools, are first. */
const LATE_MS = 30_000;

export function templateName(pool: StoredSandboxPool): string {
  return `sandbox-${pool.metadata.name}`;
}

/** Known from the claim alone, so that one that nobody saw bound can be withdrawn. */
export function sandboxClaimName(claim: string): string {
  return `sandbox-c${createHash("sha256").update(claim).digest("hex").slice(0, 24)}`;
}

/** A key in the template makes two templates of one pool differ: one that is good stays as it is. */
export function isCurrent(
  template: Stored<SandboxTemplate> | undefined,
  pool: StoredSandboxPool,
  image: string,
  now: number,
): boolean {
  const wanted = podLabels(pool, image)[SANDBOX_LABELS.template];
  if (template?.metadata.labels?.[SANDBOX_LABELS.template] !== wanted) return false;
  const { certificate } = identityIn(template?.spec?.podTemplate.spec, templateName(pool));
  return Date.parse(new X509Certificate(certificate).validTo) - now > RENEW_MS;
}

export function sandboxTemplate(pool: StoredSandboxPool, image: string, identity: PodIdentity): Draft<SandboxTemplate> {
  const labels = podLabels(pool, image);
  const podTemplate = { metadata: { labels }, spec: podSpec(pool.spec, image, identity) };
  // Our own policy holds the pods, by their label; theirs would let them reach the internet.
  const spec = { podTemplate, networkPolicyManagement: "Unmanaged", service: false };
  return { metadata: metadataOf(pool, templateName(pool), labels), spec } as Draft<SandboxTemplate>;
}

/** What waits must leave room for what is claimed. */
export function sandboxWarmPool(pool: StoredSandboxPool, claimed: number): Draft<SandboxWarmPool> {
  const { warm, max } = pool.spec;
  const spec = {
    replicas: Math.max(0, Math.min(warm, max - claimed)),
    sandboxTemplateRef: { name: templateName(pool) },
    updateStrategy: { type: "Recreate" },
  };
  return { metadata: metadataOf(pool, templateName(pool)), spec };
}

/** Without `env` and volumes: with them agent-sandbox gives no warm pod. Without labels: it takes those of few domains only. */
export function sandboxClaim(pool: StoredSandboxPool, claim: Claim): Draft<SandboxClaim> {
  const annotations = { [CLAIM_NOTES.claim]: claim.id, ...claimNotes(claim) };
  const spec = {
    warmPoolRef: { name: templateName(pool) },
    // The default keeps a claim for ever.
    lifecycle: { shutdownTime: new Date(claim.until + LATE_MS).toISOString(), shutdownPolicy: "Delete" },
    additionalPodMetadata: { annotations },
  };
  return { metadata: metadataOf(pool, sandboxClaimName(claim.id)), spec };
}

function metadataOf(pool: StoredSandboxPool, name: string, labels: Record<string, string> = {}) {
  const own = { [SANDBOX_LABELS.managedBy]: "whetstone", [SANDBOX_LABELS.pool]: pool.metadata.name };
  return { name, labels: { ...own, ...labels }, ownerReferences: [ownedBy(pool, SANDBOX_POOLS)] };
}
