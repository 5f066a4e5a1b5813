// SPDX-License-Identifier: Apache-2.0
import { createPrivateKey, X509Certificate } from "node:crypto";
import { readFileSync } from "node:fs";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { createSecureContext } from "node:tls";
import { ConfigError } from "@whetstone/core";
import type { Logger } from "@whetstone/telemetry";
import { type Role, roleName, roleOf } from "./roles.ts";

// T1: what is in use is always a certificate with its own key, signed by an authority of the bundle. T2: a new one is taken
// within `pollMs` without cutting a connection; one that does not fit is reported and the old one stays.

/** PEM bytes of one moment. */
export interface TlsMaterial {
  readonly ca: Buffer;
  readonly cert: Buffer;
  readonly key: Buffer;
}

export interface TlsOptions {
  readonly logger: Logger;
  /** Kubernetes changes mounted files by swapping a link, which file watchers miss on some systems: so we look. Default 10,000. */
  readonly pollMs?: number;
}

/** Whom a client means to talk to. */
export interface TlsPeer {
  readonly identity: TlsIdentity;
  /** What the server's certificate must be valid for. */
  readonly serverName: string;
}

const FILES = { ca: "ca.crt", cert: "tls.crt", key: "tls.key" } as const;

/** Who this process is, from a folder with ca.crt (one or several authorities), tls.crt and tls.key. */
export class TlsIdentity implements Disposable {
  readonly folder: string;
  readonly role: Role;
  readonly #logger: Logger;
  readonly #timer: NodeJS.Timeout;
  readonly #listeners = new Set<(material: TlsMaterial) => void>();
  #material: TlsMaterial;
  #refused: TlsMaterial | undefined;

  /** @throws ConfigError naming the file that is missing or does not fit. */
  constructor(folder: string, { logger, pollMs = 10_000 }: TlsOptions) {
    this.folder = folder;
    this.#logger = logger;
    this.#material = readNow(folder);
    const fault = faultOf(this.#material);
    if (fault !== undefined) throw new ConfigError([{ path: "tlsPath", reason: `${folder}: ${fault}` }]);
    this.role = roleOf({ subjectaltname: new X509Certificate(this.#material.cert).subjectAltName ?? "" }) as Role;
    this.#timer = setInterval(() => void this.reload(), pollMs).unref();
  }

  get material(): TlsMaterial {
    return this.#material;
  }

  /** Called with every new certificate. Returns what ends it. */
  onChange(listener: (material: TlsMaterial) => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  to(role: Role): TlsPeer {
    return { identity: this, serverName: roleName(role) };
  }

  /** Looks at the files now. Never throws. */
  async reload(): Promise<void> {
    const next = await readLater(this.folder).catch((error: unknown) => {
      this.#logger.warn("tls_not_read", { folder: this.folder, error });
    });
    if (next === undefined || same(next, this.#material)) return;
    const fault = faultOf(next);
    if (fault !== undefined) {
      // Read between two writes, most often: the next look finds the rest.
      if (this.#refused && same(next, this.#refused)) return;
      this.#refused = next;
      this.#logger.warn("tls_refused", { folder: this.folder, reason: fault });
      return;
    }
    this.#material = next;
    const { validTo, serialNumber } = new X509Certificate(next.cert);
    this.#logger.info("tls_reloaded", { folder: this.folder, serialNumber, validTo });
    for (const listener of this.#listeners) listener(next);
  }

  [Symbol.dispose](): void {
    clearInterval(this.#timer);
    this.#listeners.clear();
  }
}

/** @param folder  none: no TLS. */
export function openTls(folder: string | undefined, options: TlsOptions): TlsIdentity | undefined {
  return folder === undefined || folder === "" ? undefined : new TlsIdentity(folder, options);
}

function readNow(folder: string): TlsMaterial {
  const read = (name: string): Buffer => {
    try {
      return readFileSync(join(folder, name));
    } catch (error) {
      const reason = `cannot read ${join(folder, name)}: ${(error as Error).message}`;
      throw new ConfigError([{ path: "tlsPath", reason }]);
    }
  };
  return { ca: read(FILES.ca), cert: read(FILES.cert), key: read(FILES.key) };
}

async function readLater(folder: string): Promise<TlsMaterial> {
  const [ca, cert, key] = await Promise.all(Object.values(FILES).map((name) => readFile(join(folder, name))));
  if (ca === undefined || cert === undefined || key === undefined) throw new Error("three files are needed");
  return { ca, cert, key };
}

function same(a: TlsMaterial, b: TlsMaterial): boolean {
  return a.ca.equals(b.ca) && a.cert.equals(b.cert) && a.key.equals(b.key);
}

/** Why these three cannot be used together. */
function faultOf(material: TlsMaterial): string | undefined {
  try {
    createSecureContext({ ca: material.ca, cert: material.cert, key: material.key });
    const leaf = new X509Certificate(material.cert);
    if (!leaf.checkPrivateKey(createPrivateKey(material.key))) return "tls.key is not the key of tls.crt";
    if (roleOf({ subjectaltname: leaf.subjectAltName ?? "" }) === undefined)
      return `tls.crt names no role: it needs a DNS name such as ${roleName("controller")}`;
    if (leaf.validToDate.getTime() < Date.now()) return `tls.crt is valid until ${leaf.validTo} only`;
    return undefined;
  } catch (error) {
    return (error as Error).message;
  }
}
