// SPDX-License-Identifier: Apache-2.0
import { WhetstoneError } from "@whetstone/core";
import type { Kube } from "@whetstone/kube";
import {
  isCurrent,
  SANDBOX_TEMPLATES,
  SANDBOX_WARM_POOLS,
  sandboxTemplate,
  sandboxWarmPool,
  templateName,
} from "./agent-sandbox.ts";
import { makeIdentity } from "./identity.ts";
import type { StoredSandboxPool } from "./schema.ts";
import type { SandboxStatusFacts } from "./status.ts";

export interface Wanted {
  /** Of the daemon. */
  readonly image: string;
  /** Pods that are claimed. */
  readonly claimed: number;
}

export type Served = Pick<SandboxStatusFacts, "refused" | "isAbsent">;

/** Has agent-sandbox keep as many pods warm as the pool wants, made from the pool's template. */
export async function serveByAgentSandbox(
  kube: Kube,
  pool: StoredSandboxPool,
  { image, claimed }: Wanted,
  signal: AbortSignal,
): Promise<Served> {
  const name = templateName(pool);
  try {
    const template = await kube.get(SANDBOX_TEMPLATES, name, { signal });
    if (!isCurrent(template, pool, image, Date.now()))
      await kube.apply(SANDBOX_TEMPLATES, sandboxTemplate(pool, image, makeIdentity()), { signal });
    const wanted = sandboxWarmPool(pool, claimed);
    const there = await kube.get(SANDBOX_WARM_POOLS, name, { signal });
    if (there?.spec?.replicas !== wanted.spec?.replicas) await kube.apply(SANDBOX_WARM_POOLS, wanted, { signal });
    return { refused: "", isAbsent: false };
  } catch (error) {
    const { code, message } = WhetstoneError.from(error);
    if (code === "NOT_FOUND") return { refused: "", isAbsent: true };
    if (code === "INVALID_ARGUMENT" || code === "PERMISSION_DENIED") return { refused: message, isAbsent: false };
    throw error;
  }
}
