// SPDX-License-Identifier: Apache-2.0
import type { PeerCertificate } from "node:tls";

/** Every process of Whetstone has one, written in its certificate as the DNS name `<role>.whetstone`. */
export const ROLES = [
  "controller",
  "orchestrator",
  "env-runner",
  "gateway",
  "engine",
  "trainer",
  "nats",
  "client",
  "console",
] as const;

export type Role = (typeof ROLES)[number];

/**
 * What a server's certificate must be valid for. A role and not an address: pods have changing addresses and port-forwards
 * none at all, and every TLS library can check a DNS name.
 */
export function roleName(role: Role): string {
  return `${role}.whetstone`;
}

/** The role that a verified certificate proves; undefined when it names none. */
export function roleOf(certificate: Pick<PeerCertificate, "subjectaltname"> | undefined): Role | undefined {
  const names = certificate?.subjectaltname?.split(", ") ?? [];
  return ROLES.find((role) => names.includes(`DNS:${roleName(role)}`));
}
