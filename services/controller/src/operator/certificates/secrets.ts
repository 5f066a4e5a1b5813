// SPDX-License-Identifier: Apache-2.0
import { type Kube, SECRETS } from "@whetstone/kube";
import type { Logger } from "@whetstone/telemetry";
import { type DesiredCertificates, isWhole, planCertificates, type SecretData } from "./plan.ts";

interface Found {
  readonly resourceVersion: string | undefined;
  readonly data: SecretData;
}

export interface Kept {
  /** Names of the Secrets that were written. */
  readonly written: readonly string[];
  /** Those among them that were missing, empty or damaged: no ordinary renewal. */
  readonly mended: readonly string[];
}

/** All that a desired is about, the authority's first. */
export function secretNames({ authority, leaves }: DesiredCertificates): string[] {
  return [authority, ...leaves.map(({ secret }) => secret)];
}

/**
 * Brings the Secrets to what they should be. The chart makes them, empty, so that they go with the release; one that was
 * deleted since is made again, empty too. Each write is for what was read; whoever comes second fails and looks again.
 * @throws CONFLICT
 */
export async function keepCertificates(kube: Kube, desired: DesiredCertificates, logger: Logger): Promise<Kept> {
  const found = new Map<string, Found>();
  for (const name of secretNames(desired))
    found.set(name, (await read(kube, name)) ?? (await make(kube, name, desired)));
  const data = new Map([...found].map(([name, secret]) => [name, secret.data]));
  const writes = planCertificates(desired, data, new Date());
  for (const [name, next] of writes) {
    const { resourceVersion, data: old = {} } = found.get(name) ?? {};
    await kube.patch(SECRETS, name, { metadata: { resourceVersion }, data: patchOf(old, next) });
    logger.info("certificate_written", { name });
  }
  const written = [...writes.keys()];
  return { written, mended: written.filter((name) => !isWhole(data.get(name))) };
}

/** By server-side apply, which may be allowed for single names, other than a create. */
async function make(kube: Kube, name: string, { labels }: DesiredCertificates): Promise<Found> {
  const { metadata } = await kube.apply(SECRETS, { metadata: { name, labels: { ...labels } }, type: "Opaque" });
  return { resourceVersion: metadata.resourceVersion, data: {} };
}

async function read(kube: Kube, name: string): Promise<Found | undefined> {
  const secret = await kube.get(SECRETS, name);
  if (secret === undefined) return undefined;
  const data = Object.entries(secret.data ?? {}).map(([key, value]) => [key, Buffer.from(value, "base64").toString()]);
  return { resourceVersion: secret.metadata.resourceVersion, data: Object.fromEntries(data) as SecretData };
}

/** As a merge patch: what is gone becomes null. */
function patchOf(old: SecretData, next: SecretData): Record<string, string | null> {
  const gone = Object.keys(old).filter((key) => !(key in next));
  const kept = Object.entries(next).map(([key, value]) => [key, Buffer.from(value).toString("base64")] as const);
  return Object.fromEntries([...gone.map((key) => [key, null] as const), ...kept]);
}
