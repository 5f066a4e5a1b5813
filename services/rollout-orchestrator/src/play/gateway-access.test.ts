// SPDX-License-Identifier: Apache-2.0
// Which of the gateway's two ports each kind of code is led to, in plain text and with mutual TLS.
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { createServer, type Server } from "node:http";
import { createServer as createTlsServer } from "node:https";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Duplex } from "node:stream";
import { text } from "node:stream/consumers";
import { silentLogger as logger } from "@whetstone/telemetry";
import { type Role, TlsIdentity } from "@whetstone/tls";
import { createAuthority, issue, writeTlsFolder } from "@whetstone/tls/issuer";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { openGatewayWays } from "./gateway-access.ts";

const VALIDITY = { from: new Date(), days: 1 };
const PUBLIC = "https://agents.example/policy";
const authority = createAuthority(VALIDITY);
const root = mkdtempSync(join(tmpdir(), "whetstone-ways-"));
const servers: Server[] = [];
let tls: TlsIdentity;
let gatewayPem: { ca: Buffer; cert: Buffer; key: Buffer };

function folderOf(role: Role): string {
  writeTlsFolder(join(root, role), authority.cert, issue(authority, role, [], VALIDITY));
  return join(root, role);
}

beforeAll(() => {
  const folder = folderOf("gateway");
  const read = (name: string): Buffer => readFileSync(join(folder, name));
  gatewayPem = { ca: read("ca.crt"), cert: read("tls.crt"), key: read("tls.key") };
  tls = new TlsIdentity(folderOf("orchestrator"), { logger });
});
afterAll(() => {
  tls[Symbol.dispose]();
  for (const server of servers) {
    server.closeAllConnections();
    server.close();
  }
  rmSync(root, { recursive: true });
});

/** A server that says its name; its URL. */
async function portCalled(name: string, secured: boolean): Promise<string> {
  const answer: Parameters<typeof createServer>[1] = (_request, response) => response.end(name);
  const server = secured ? createTlsServer(gatewayPem, answer) : createServer(answer);
  servers.push(server);
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  return `${secured ? "https" : "http"}://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

async function askedOver(socket: Duplex): Promise<string> {
  socket.write("GET / HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n");
  return /first|agents/.exec(await text(socket))?.[0] ?? "";
}

const asked = async (url: string | undefined): Promise<string> => (await fetch(url ?? "")).text();

describe.each([false, true])("with TLS: %s", (secured) => {
  it("leads programs and their clients to the port for agents, our own code to the first", async () => {
    const [gatewayUrl, agentGatewayUrl] = [await portCalled("first", secured), await portCalled("agents", secured)];
    await using opened = new AsyncDisposableStack();
    const places = { gatewayUrl, agentGatewayUrl, publicGatewayUrl: PUBLIC };
    const ways = await openGatewayWays(places, secured ? tls : undefined, opened);
    expect(await askedOver(ways.connect())).toBe("first");
    expect(await askedOver(ways.connectPrograms())).toBe("agents");
    expect(await asked(ways.url)).toBe("first");
    expect(await asked(ways.access.agentUrl)).toBe("agents");
    expect(ways.access.publicUrl).toBe(PUBLIC);
  });

  it("leads all of them to the one port there is", async () => {
    const gatewayUrl = await portCalled("first", secured);
    await using opened = new AsyncDisposableStack();
    const ways = await openGatewayWays({ gatewayUrl }, secured ? tls : undefined, opened);
    expect(await askedOver(ways.connectPrograms())).toBe("first");
    expect(ways.access).toMatchObject({ agentUrl: undefined, publicUrl: undefined });
  });
});
