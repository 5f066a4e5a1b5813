// SPDX-License-Identifier: Apache-2.0
import { X509Certificate } from "node:crypto";
import { once } from "node:events";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { connect, createServer, type Server, type TLSSocket } from "node:tls";
import { silentLogger } from "@whetstone/telemetry";
import { afterEach, beforeEach, expect, it } from "vitest";
import { TlsIdentity } from "./identity.ts";
import { createAuthority, issue, type IssuedPair, writeTlsFolder } from "./issuer.ts";
import { startRelay } from "./relay.ts";
import { type Role, roleName, roleOf } from "./roles.ts";

const NOW = { from: new Date(), days: 30 };
const authority = createAuthority({ from: new Date(), days: 3650 });
let folder: string;

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "whetstone-tls-"));
});
afterEach(() => {
  rmSync(folder, { recursive: true });
});

function identityOf(role: Role, by: IssuedPair = authority, validity = NOW): TlsIdentity {
  writeTlsFolder(join(folder, role), authority.cert, issue(by, role, ["localhost", "127.0.0.1"], validity));
  return new TlsIdentity(join(folder, role), { logger: silentLogger, pollMs: 60_000 });
}

async function echo(identity: TlsIdentity): Promise<{ server: Server; port: number }> {
  const server = createServer({ ...identity.material, requestCert: true, rejectUnauthorized: true }, (socket) => {
    socket.on("error", () => undefined);
    socket.write(`${roleOf(socket.getPeerCertificate()) ?? "nobody"}\n`);
    socket.pipe(socket);
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  return { server, port: (server.address() as AddressInfo).port };
}

/** What the server says first, or why there was no connection. */
function greet(port: number, identity: TlsIdentity, servername: string): Promise<string> {
  const socket: TLSSocket = connect({ host: "127.0.0.1", port, ...identity.material, servername });
  return new Promise((resolve) => {
    socket.once("data", (chunk: Buffer) => {
      resolve(chunk.toString().trim());
      socket.destroy();
    });
    socket.once("error", (error: NodeJS.ErrnoException) => {
      resolve(error.code ?? error.message);
    });
    socket.once("close", () => {
      resolve("closed");
    });
  });
}

it("issues what OpenSSL accepts on both ends, and names the caller", async () => {
  using server = identityOf("trainer");
  using caller = identityOf("controller");
  const { server: listening, port } = await echo(server);
  expect(await greet(port, caller, roleName("trainer"))).toBe("controller");
  expect(await greet(port, caller, "localhost")).toBe("controller");
  expect(await greet(port, caller, roleName("engine"))).toBe("ERR_TLS_CERT_ALTNAME_INVALID");
  listening.close();
});

it("refuses another authority's certificate", async () => {
  using server = identityOf("trainer");
  // It trusts the server, so that only the server can refuse.
  using stranger = identityOf("controller", createAuthority({ from: new Date(), days: 30 }));
  const { server: listening, port } = await echo(server);
  expect(await greet(port, stranger, roleName("trainer"))).toMatch(/^(closed|ECONNRESET|ERR_SSL)/);
  listening.close();
});

it("writes fields as asked for", () => {
  const longAgo = new Date("2049-12-31T00:00:00Z");
  const leaf = new X509Certificate(
    issue(authority, "gateway", ["a.b.svc", "10.0.0.1"], { from: longAgo, days: 2 }).cert,
  );
  expect(leaf.subjectAltName).toBe("DNS:gateway.whetstone, DNS:a.b.svc, IP Address:10.0.0.1");
  expect(leaf.validToDate).toEqual(new Date("2050-01-02T00:00:00Z"));
  expect(leaf.ca).toBe(false);
  expect(leaf.keyUsage).toEqual(["1.3.6.1.5.5.7.3.1", "1.3.6.1.5.5.7.3.2"]); // serverAuth, clientAuth
  const root = new X509Certificate(authority.cert);
  expect(root.ca).toBe(true);
  expect(leaf.checkIssued(root)).toBe(true);
  expect(leaf.verify(root.publicKey)).toBe(true);
});

it("takes new files, and keeps the old ones when they do not fit", async () => {
  using identity = identityOf("engine");
  const seen: Buffer[] = [];
  identity.onChange(({ cert }) => seen.push(cert));
  const before = identity.material;
  const next = issue(authority, "engine", [], NOW);
  writeFileSync(join(folder, "engine/tls.crt"), next.cert);
  await identity.reload(); // The key is not there yet.
  expect(identity.material).toBe(before);
  writeFileSync(join(folder, "engine/tls.key"), next.key);
  await identity.reload();
  expect(identity.material.cert.toString()).toBe(next.cert);
  expect(seen).toHaveLength(1);
});

it("says what is wrong with a folder", () => {
  expect(() => new TlsIdentity(folder, { logger: silentLogger })).toThrow(/ca\.crt/);
  expect(() => identityOf("engine", authority, { from: new Date(0), days: 1 })).toThrow(/valid until/);
  const foreign = issue(authority, "engine", [], NOW);
  writeTlsFolder(folder, authority.cert, { cert: foreign.cert, key: issue(authority, "engine", [], NOW).key });
  expect(() => new TlsIdentity(folder, { logger: silentLogger })).toThrow(/tlsPath/);
});

it("relays plain text of this machine as its own role", async () => {
  using server = identityOf("gateway");
  using caller = identityOf("orchestrator");
  const { server: listening, port } = await echo(server);
  await using relay = await startRelay(() => ({ host: "127.0.0.1", port }), caller.to("gateway"));
  const { connect: plain } = await import("node:net");
  const socket = plain(relay.port, "127.0.0.1");
  const [chunk] = (await once(socket, "data")) as [Buffer];
  expect(chunk.toString().trim()).toBe("orchestrator");
  socket.end();
  await once(socket, "close");
  listening.close();
});
