// SPDX-License-Identifier: Apache-2.0
/** A small certificate authority (RFC 5280, ECDSA P-256). */
import { createHash, createPrivateKey, generateKeyPairSync, type KeyObject, randomBytes, sign } from "node:crypto";
import { X509Certificate } from "node:crypto";
import { mkdirSync, writeFileSync } from "node:fs";
import { isIP } from "node:net";
import { join } from "node:path";
import { AsnConvert, OctetString } from "@peculiar/asn1-schema";
import * as x509 from "@peculiar/asn1-x509";
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
  readonly subject: x509.Name;
  readonly publicKey: KeyObject;
  readonly extensions: readonly x509.Extension[];
}

interface Signer {
  readonly subject: x509.Name;
  readonly key: KeyObject;
}

const DAY_MS = 86_400_000;
/** Clocks of a cluster may differ by this much. */
const CLOCK_SKEW_MS = 5 * 60_000;
const ECDSA_SHA256 = new x509.AlgorithmIdentifier({ algorithm: "1.2.840.10045.4.3.2" });
const ORGANIZATION = "2.5.4.10";
const COMMON_NAME = "2.5.4.3";

/** A new authority. Its name carries a random part, so that two of them are never taken for each other. */
export function createAuthority(validity: Validity): IssuedPair {
  const { privateKey, publicKey } = generateKeyPairSync("ec", { namedCurve: "P-256" });
  const subject = nameOf(`ca-${randomBytes(4).toString("hex")}`);
  const usage = x509.KeyUsageFlags.keyCertSign | x509.KeyUsageFlags.cRLSign;
  const extensions = [
    // A CA, with no further CA below it.
    critical(x509.id_ce_basicConstraints, new x509.BasicConstraints({ cA: true, pathLenConstraint: 0 })),
    critical(x509.id_ce_keyUsage, new x509.KeyUsage(usage)),
    extension(x509.id_ce_subjectKeyIdentifier, keyIdOf(publicKey)),
  ];
  return {
    cert: certify({ ...validity, subject, publicKey, extensions }, { subject, key: privateKey }),
    key: pemOf(privateKey),
  };
}

/** A certificate that nobody vouches for: for two ends that were told of this very one. It can sign no other. */
export function selfSigned(name: string, validity: Validity): IssuedPair {
  const { privateKey, publicKey } = generateKeyPairSync("ec", { namedCurve: "P-256" });
  const subject = nameOf(`${name}-${randomBytes(4).toString("hex")}`);
  const extensions = [
    critical(x509.id_ce_basicConstraints, new x509.BasicConstraints()),
    critical(x509.id_ce_keyUsage, new x509.KeyUsage(x509.KeyUsageFlags.digitalSignature)),
    extension(x509.id_ce_extKeyUsage, new x509.ExtendedKeyUsage([x509.id_kp_serverAuth, x509.id_kp_clientAuth])),
  ];
  const cert = certify({ ...validity, subject, publicKey, extensions }, { subject, key: privateKey });
  return { cert, key: pemOf(privateKey) };
}

/** A role's certificate, for both ends of a connection. `names`: further DNS names and IP addresses it is reached by. */
export function issue(authority: IssuedPair, role: Role, names: readonly string[], validity: Validity): IssuedPair {
  const { privateKey, publicKey } = generateKeyPairSync("ec", { namedCurve: "P-256" });
  const { raw, publicKey: authorityKey } = new X509Certificate(authority.cert);
  const alternatives = [roleName(role), ...names].map(
    (name) => new x509.GeneralName(isIP(name) === 0 ? { dNSName: name } : { iPAddress: name }),
  );
  const extensions = [
    critical(x509.id_ce_basicConstraints, new x509.BasicConstraints()),
    critical(x509.id_ce_keyUsage, new x509.KeyUsage(x509.KeyUsageFlags.digitalSignature)),
    extension(x509.id_ce_extKeyUsage, new x509.ExtendedKeyUsage([x509.id_kp_serverAuth, x509.id_kp_clientAuth])),
    extension(x509.id_ce_subjectAltName, new x509.SubjectAlternativeName(alternatives)),
    extension(x509.id_ce_subjectKeyIdentifier, keyIdOf(publicKey)),
    extension(
      x509.id_ce_authorityKeyIdentifier,
      new x509.AuthorityKeyIdentifier({ keyIdentifier: keyIdOf(authorityKey) }),
    ),
  ];
  const signer = {
    subject: AsnConvert.parse(raw, x509.Certificate).tbsCertificate.subject,
    key: createPrivateKey(authority.key),
  };
  const cert = certify({ ...validity, subject: nameOf(role), publicKey, extensions }, signer);
  return { cert, key: pemOf(privateKey) };
}

/** A folder as every service reads it. */
export function writeTlsFolder(folder: string, ca: string, { cert, key }: IssuedPair): void {
  mkdirSync(folder, { recursive: true, mode: 0o700 });
  writeFileSync(join(folder, "tls.key"), key, { mode: 0o600 });
  writeFileSync(join(folder, "tls.crt"), cert);
  writeFileSync(join(folder, "ca.crt"), ca);
}

function certify({ from, days, subject, publicKey, extensions }: Request, signer: Signer): string {
  const tbsCertificate = new x509.TBSCertificate({
    version: x509.Version.v3,
    serialNumber: Uint8Array.of(0x01, ...randomBytes(15)).buffer,
    signature: ECDSA_SHA256,
    issuer: signer.subject,
    validity: new x509.Validity({
      notBefore: new Date(from.getTime() - CLOCK_SKEW_MS),
      notAfter: new Date(from.getTime() + days * DAY_MS),
    }),
    subject,
    subjectPublicKeyInfo: AsnConvert.parse(derOf(publicKey), x509.SubjectPublicKeyInfo),
    extensions: new x509.Extensions([...extensions]),
  });
  const signature = sign("sha256", Buffer.from(AsnConvert.serialize(tbsCertificate)), signer.key);
  const certificate = new x509.Certificate({
    tbsCertificate,
    signatureAlgorithm: ECDSA_SHA256,
    signatureValue: new Uint8Array(signature).buffer,
  });
  return new X509Certificate(Buffer.from(AsnConvert.serialize(certificate))).toString();
}

function extension(extnID: string, value: object): x509.Extension {
  return new x509.Extension({ extnID, extnValue: new OctetString(AsnConvert.serialize(value)) });
}

function critical(extnID: string, value: object): x509.Extension {
  return new x509.Extension({ ...extension(extnID, value), critical: true });
}

function nameOf(commonName: string): x509.Name {
  const part = (type: string, utf8String: string): x509.RelativeDistinguishedName =>
    new x509.RelativeDistinguishedName([
      new x509.AttributeTypeAndValue({ type, value: new x509.AttributeValue({ utf8String }) }),
    ]);
  return new x509.Name([part(ORGANIZATION, "whetstone"), part(COMMON_NAME, commonName)]);
}

function keyIdOf(key: KeyObject): x509.KeyIdentifier {
  return new x509.KeyIdentifier(createHash("sha1").update(derOf(key)).digest());
}

function derOf(key: KeyObject): Buffer {
  return key.export({ type: "spki", format: "der" });
}

function pemOf(key: KeyObject): string {
  return key.export({ type: "pkcs8", format: "pem" }).toString();
}
