// SPDX-License-Identifier: Apache-2.0
/** A small certificate authority (RFC 5280, ECDSA P-256). Twenty packages would do the same, and would hold its key. */
import { createHash, createPrivateKey, generateKeyPairSync, type KeyObject, randomBytes, sign } from "node:crypto";
import { X509Certificate } from "node:crypto";
import { mkdirSync, writeFileSync } from "node:fs";
import { isIP } from "node:net";
import { join } from "node:path";
import { bits, explicit, implicit, integer, octets, oid, sequence, set, text, time, yes } from "./der.ts";
import { type Role, roleName } from "./roles.ts";

/** PEM texts. */
export interface IssuedPair {
  readonly cert: string;
  readonly key: string;
}

export interface Validity {
  readonly from: Date;
  readonly days: number;
}

interface Request extends Validity {
  readonly subject: string;
  readonly publicKey: KeyObject;
  readonly extensions: readonly Buffer[];
}

interface Signer {
  readonly subject: string;
  readonly keyId: Buffer;
  readonly key: KeyObject;
}

const DAY_MS = 86_400_000;
/** Clocks of a cluster may differ by this much. */
const CLOCK_SKEW_MS = 5 * 60_000;
const ECDSA_SHA256 = sequence(oid("1.2.840.10045.4.3.2"));

/** A new authority. Its name carries a random part, so that two of them are never taken for each other. */
export function createAuthority(validity: Validity): IssuedPair {
  const { privateKey, publicKey } = generateKeyPairSync("ec", { namedCurve: "P-256" });
  const subject = `ca-${randomBytes(4).toString("hex")}`;
  const keyId = keyIdOf(publicKey);
  const extensions = [
    extension("2.5.29.19", sequence(yes, integer(Buffer.from([0]))), true), // A CA, with no further CA below it.
    extension("2.5.29.15", bits(Buffer.from([0b0000_0110]), 1), true), // keyCertSign, cRLSign
    extension("2.5.29.14", octets(keyId)),
  ];
  const cert = certify({ ...validity, subject, publicKey, extensions }, { subject, keyId, key: privateKey });
  return { cert, key: pemOf(privateKey) };
}

/** A role's certificate, for both ends of a connection. `names`: further DNS names and IP addresses it is reached by. */
export function issue(authority: IssuedPair, role: Role, names: readonly string[], validity: Validity): IssuedPair {
  const { privateKey, publicKey } = generateKeyPairSync("ec", { namedCurve: "P-256" });
  const alternatives = [roleName(role), ...names].map(generalName);
  const signer = signerOf(authority);
  const extensions = [
    extension("2.5.29.19", sequence(), true),
    extension("2.5.29.15", bits(Buffer.from([0b1000_0000]), 7), true), // digitalSignature
    extension("2.5.29.37", sequence(oid("1.3.6.1.5.5.7.3.1"), oid("1.3.6.1.5.5.7.3.2"))), // serverAuth, clientAuth
    extension("2.5.29.17", sequence(...alternatives)),
    extension("2.5.29.14", octets(keyIdOf(publicKey))),
    extension("2.5.29.35", sequence(implicit(0, signer.keyId))),
  ];
  return { cert: certify({ ...validity, subject: role, publicKey, extensions }, signer), key: pemOf(privateKey) };
}

/** A folder as every service reads it. */
export function writeTlsFolder(folder: string, ca: string, { cert, key }: IssuedPair): void {
  mkdirSync(folder, { recursive: true, mode: 0o700 });
  writeFileSync(join(folder, "tls.key"), key, { mode: 0o600 });
  writeFileSync(join(folder, "tls.crt"), cert);
  writeFileSync(join(folder, "ca.crt"), ca);
}

function signerOf({ cert, key }: IssuedPair): Signer {
  const authority = new X509Certificate(cert);
  const subject = /^CN=(.*)$/m.exec(authority.subject)?.[1] ?? "";
  return { subject, keyId: keyIdOf(authority.publicKey), key: createPrivateKey(key) };
}

function certify(request: Request, signer: Signer): string {
  const until = new Date(request.from.getTime() + request.days * DAY_MS);
  const body = sequence(
    explicit(0, integer(Buffer.from([2]))), // Version 3
    integer(Buffer.from([0x01, ...randomBytes(15)])),
    ECDSA_SHA256,
    name(signer.subject),
    sequence(time(new Date(request.from.getTime() - CLOCK_SKEW_MS)), time(until)),
    name(request.subject),
    request.publicKey.export({ type: "spki", format: "der" }),
    explicit(3, sequence(...request.extensions)),
  );
  const signature = sign("sha256", body, { key: signer.key, dsaEncoding: "der" });
  return new X509Certificate(sequence(body, ECDSA_SHA256, bits(signature))).toString();
}

function extension(id: string, value: Buffer, critical = false): Buffer {
  return sequence(oid(id), ...(critical ? [yes] : []), octets(value));
}

function name(commonName: string): Buffer {
  const part = (id: string, value: string): Buffer => set(sequence(oid(id), text(value)));
  return sequence(part("2.5.4.10", "whetstone"), part("2.5.4.3", commonName));
}

function generalName(value: string): Buffer {
  if (isIP(value) === 4) return implicit(7, Buffer.from(value.split(".").map(Number)));
  return implicit(2, Buffer.from(value, "ascii"));
}

function keyIdOf(key: KeyObject): Buffer {
  return createHash("sha1")
    .update(key.export({ type: "spki", format: "der" }))
    .digest();
}

function pemOf(key: KeyObject): string {
  return key.export({ type: "pkcs8", format: "pem" }).toString();
}
