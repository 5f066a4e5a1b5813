// SPDX-License-Identifier: Apache-2.0
import { selfSigned } from "@whetstone/tls/issuer";
import type { PodIdentity } from "./pods.ts";

/** Longer than any pod lives: warm ones may wait for weeks. */
const DAYS = 365;

/** A certificate that is signed by nobody but itself: both ends know the one that they expect. */
export function makeIdentity(): PodIdentity {
  const { key, cert } = selfSigned("sandbox", { from: new Date(), days: DAYS });
  return { key, certificate: cert };
}
