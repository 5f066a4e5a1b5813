// SPDX-License-Identifier: Apache-2.0
import { createPrivateKey, X509Certificate } from "node:crypto";
import { roleName, type Role } from "@whetstone/tls";
import { createAuthority, issue, type IssuedPair } from "@whetstone/tls/issuer";

// C1: a certificate is renewed when a third of its life is left. C2: a new authority signs nothing before every process has had
// SPREAD to learn it, and an old one is trusted until every process has had SPREAD to get a certificate of the new one: so
// that at no moment two of our processes distrust each other. C3: the same holds when the authority's key is lost: the lost
// one can sign no more, but who has a certificate of it keeps it, and is trusted, until the new one has had SPREAD.

/** One role's certificate: its Secret, and by which names it is reached beside its role's. */
export interface DesiredLeaf {
  readonly role: Role;
  readonly secret: string;
  readonly names: readonly string[];
}

export interface DesiredCertificates {
  /** Secret of the authority: its key never leaves it. */
  readonly authority: string;
  readonly leaves: readonly DesiredLeaf[];
  /** Of a Secret that has to be made again. */
  readonly labels?: Readonly<Record<string, string>> | undefined;
  /** Of a leaf. */
  readonly days: number;
}

/** PEM texts by file name. */
export type SecretData = Readonly<Record<string, string>>;
export type Secrets = ReadonlyMap<string, SecretData>;

const AUTHORITY_DAYS = 3650;
/** A mounted Secret takes up to two minutes to change, a process ten seconds to see it: an hour is plenty. */
const SPREAD_MS = 3_600_000;
const RENEW_AT = 1 / 3;

/** The Secrets to write; the others are as they should be. */
export function planCertificates(desired: DesiredCertificates, found: Secrets, now: Date): Map<string, SecretData> {
  const before = found.get(desired.authority) ?? {};
  const leavesBefore = desired.leaves.map(({ secret }) => found.get(secret) ?? {});
  const authority = planAuthority(before, leavesBefore, now);
  const ca = bundleOf(authority);
  const writes = new Map<string, SecretData>();
  if (!same(before, authority)) writes.set(desired.authority, authority);
  for (const leaf of desired.leaves) {
    const old = found.get(leaf.secret) ?? {};
    const next = { ...leafOf(leaf, old, authority, { from: now, days: desired.days }), "ca.crt": ca };
    if (!same(old, next)) writes.set(leaf.secret, next);
  }
  return writes;
}

/** It has a certificate and the key to it. */
export function isWhole(data: SecretData | undefined): boolean {
  return data !== undefined && pairOf(data, "tls") !== undefined;
}

/** Files: tls.* signs, next.* will, previous.crt did. `rotate`, with any text, asks for a new authority. */
function planAuthority(before: SecretData, leaves: readonly SecretData[], now: Date): SecretData {
  const signer = pairOf(before, "tls");
  if (signer === undefined) return newAuthority(leaves, now);
  const next = pairOf(before, "next");
  if (next !== undefined) {
    if (ageMs(next.cert, now) < SPREAD_MS) return before;
    return { ...filesOf("tls", next), "previous.crt": signer.cert };
  }
  if (before["previous.crt"] !== undefined) {
    const spread = leaves.every(
      (leaf) => isSignedBy(leaf, signer.cert) && ageMs(leaf["tls.crt"] ?? "", now) >= SPREAD_MS,
    );
    return spread ? filesOf("tls", signer) : before;
  }
  if (before["rotate"] === undefined && lifeLeft(signer.cert, now) > RENEW_AT) return before;
  return { ...filesOf("tls", signer), ...filesOf("next", createAuthority({ from: now, days: AUTHORITY_DAYS })) };
}

/** C3: of a lost one the certificate is still known, from the bundles that its leaves have. */
function newAuthority(leaves: readonly SecretData[], now: Date): SecretData {
  const made = filesOf("tls", createAuthority({ from: now, days: AUTHORITY_DAYS }));
  const lost = new Set(leaves.flatMap((leaf) => certificatesOf(leaf["ca.crt"])));
  return lost.size > 0 ? { ...made, "previous.crt": [...lost].join("") } : made;
}

function leafOf(
  desired: DesiredLeaf,
  old: SecretData,
  authority: SecretData,
  validity: { from: Date; days: number },
): SecretData {
  const signer = pairOf(authority, "tls") as IssuedPair;
  const pair = pairOf(old, "tls");
  const isGood =
    pair !== undefined &&
    (isSignedBy(old, signer.cert) || isOfLost(old, authority, validity.from)) &&
    lifeLeft(pair.cert, validity.from) > RENEW_AT &&
    namesOf(pair.cert) === [roleName(desired.role), ...desired.names].toSorted().join();
  return filesOf("tls", isGood ? pair : issue(signer, desired.role, desired.names, validity));
}

/** C3: signed by one that the present signer replaces, and the signer is not known everywhere yet. */
function isOfLost(leaf: SecretData, authority: SecretData, now: Date): boolean {
  const isNew = ageMs(authority["tls.crt"] ?? "", now) < SPREAD_MS;
  return isNew && certificatesOf(authority["previous.crt"]).some((cert) => isSignedBy(leaf, cert));
}

function bundleOf(authority: SecretData): string {
  return ["tls.crt", "next.crt", "previous.crt"].flatMap((file) => certificatesOf(authority[file])).join("");
}

/** Each by itself; what is damaged is left out, since one bad part makes a whole bundle unreadable. */
function certificatesOf(pem = ""): string[] {
  const parts = pem.match(/-----BEGIN CERTIFICATE-----[^-]*-----END CERTIFICATE-----\n/g) ?? [];
  return parts.filter((part) => read(part) !== undefined);
}

function read(cert: string | undefined): X509Certificate | undefined {
  try {
    return cert ? new X509Certificate(cert) : undefined;
  } catch {
    return undefined;
  }
}

function pairOf(data: SecretData, name: "tls" | "next"): IssuedPair | undefined {
  const [cert, key] = [data[`${name}.crt`], data[`${name}.key`]];
  if (!cert || !key) return undefined;
  try {
    return new X509Certificate(cert).checkPrivateKey(createPrivateKey(key)) ? { cert, key } : undefined;
  } catch {
    return undefined; // Half-written or foreign: made anew.
  }
}

function filesOf(name: "tls" | "next", { cert, key }: IssuedPair): SecretData {
  return { [`${name}.crt`]: cert, [`${name}.key`]: key };
}

function isSignedBy(leaf: SecretData, signer: string): boolean {
  return read(leaf["tls.crt"])?.verify(new X509Certificate(signer).publicKey) === true;
}

function ageMs(cert: string, now: Date): number {
  return now.getTime() - new X509Certificate(cert).validFromDate.getTime();
}

function lifeLeft(cert: string, now: Date): number {
  const { validFromDate, validToDate } = new X509Certificate(cert);
  return (validToDate.getTime() - now.getTime()) / (validToDate.getTime() - validFromDate.getTime());
}

function namesOf(cert: string): string {
  const names = new X509Certificate(cert).subjectAltName?.split(", ") ?? [];
  return names
    .map((name) => name.replace(/^(DNS|IP Address):/, ""))
    .toSorted()
    .join();
}

function same(a: SecretData, b: SecretData): boolean {
  const keys = new Set([...Object.keys(a), ...Object.keys(b)]);
  return [...keys].every((key) => a[key] === b[key]);
}
