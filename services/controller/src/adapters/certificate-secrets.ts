// SPDX-License-Identifier: Apache-2.0
import { WhetstoneError } from "@whetstone/core";
import { type Kube, SECRETS } from "@whetstone/kube";
import type { Logger } from "@whetstone/telemetry";
import { type CertificatesWish, planCertificates, type SecretData } from "../domain/certificate-plan.ts";

interface Found {
  readonly resourceVersion: string | undefined;
  readonly data: SecretData;
}

/**
 * Brings the Secrets to what they should be. The chart makes them, empty: so we need no right to create any, and they go with
 * the release. Each write is for what was read; whoever comes second fails and looks again.
 * @returns how many were written @throws NOT_FOUND naming the Secret that is not there, CONFLICT
 */
export async function keepCertificates(kube: Kube, wish: CertificatesWish, logger: Logger): Promise<number> {
  const names = [wish.authority, ...wish.leaves.map(({ secret }) => secret)];
  const found = new Map<string, Found>();
  for (const name of names) found.set(name, await read(kube, name));
  const data = new Map([...found].map(([name, secret]) => [name, secret.data]));
  const writes = planCertificates(wish, data, new Date());
  for (const [name, next] of writes) {
    const { resourceVersion, data: old = {} } = found.get(name) ?? {};
    await kube.patch(SECRETS, name, { metadata: { resourceVersion }, data: patchOf(old, next) });
    logger.info("certificate_written", { name });
  }
  return writes.size;
}

async function read(kube: Kube, name: string): Promise<Found> {
  const secret = await kube.get(SECRETS, name);
  if (secret === undefined)
    throw new WhetstoneError("NOT_FOUND", `there is no Secret ${kube.namespace}/${name}: the chart makes it`);
  const data = Object.entries(secret.data ?? {}).map(([key, value]) => [key, Buffer.from(value, "base64").toString()]);
  return { resourceVersion: secret.metadata.resourceVersion, data: Object.fromEntries(data) as SecretData };
}

/** As a merge patch: what is gone becomes null. */
function patchOf(old: SecretData, next: SecretData): Record<string, string | null> {
  const gone = Object.keys(old).filter((key) => !(key in next));
  const kept = Object.entries(next).map(([key, value]) => [key, Buffer.from(value).toString("base64")] as const);
  return Object.fromEntries([...gone.map((key) => [key, null] as const), ...kept]);
}
