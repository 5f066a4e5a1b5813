// SPDX-License-Identifier: Apache-2.0
// Programs that were told of a replica are led to another one when it is gone: there their keys are good, too.
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { createServer, type Server } from "node:https";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { silentLogger as logger } from "@whetstone/telemetry";
import { waitFor } from "@whetstone/testkit";
import { type Role, TlsIdentity } from "@whetstone/tls";
import { createAuthority, issue, writeTlsFolder } from "@whetstone/tls/issuer";
import { afterEach, beforeEach, expect, it } from "vitest";
import { GatewayReplicas } from "./gateway-replicas.ts";
import type { ReplicaUrls } from "./replica-urls.ts";

const VALIDITY = { from: new Date(), days: 1 };
const authority = createAuthority(VALIDITY);
let root: string;
let servers: Map<string, Server>;
let named: ReplicaUrls[];
let replicas: GatewayReplicas;
let tls: TlsIdentity;

beforeEach(async () => {
  root = mkdtempSync(join(tmpdir(), "whetstone-replicas-"));
  servers = new Map();
  named = [await replica("first"), await replica("second")];
  tls = new TlsIdentity(folderOf("orchestrator"), { logger });
  const urls = { gatewayUrl: [], agentGatewayUrl: [] };
  replicas = await GatewayReplicas.open({ urls, connections: 4, tls, logger, everyUrl: () => Promise.resolve(named) });
});
afterEach(async () => {
  await replicas[Symbol.asyncDispose]();
  tls[Symbol.dispose]();
  for (const server of servers.values()) {
    server.closeAllConnections();
    server.close();
  }
  rmSync(root, { recursive: true });
});

function folderOf(role: Role): string {
  writeTlsFolder(join(root, role), authority.cert, issue(authority, role, [], VALIDITY));
  return join(root, role);
}

/** Answers its name at both of its ports, which are one. */
async function replica(name: string): Promise<ReplicaUrls> {
  const folder = folderOf("gateway");
  const read = (file: string): Buffer => readFileSync(join(folder, file));
  const pem = { ca: read("ca.crt"), cert: read("tls.crt"), key: read("tls.key") };
  const server = createServer(pem, (_request, response) => response.end(name));
  servers.set(name, server);
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const url = `https://127.0.0.1:${(server.address() as AddressInfo).port}`;
  return { gatewayUrl: url, agentGatewayUrl: url };
}

/** Who answers at the URL that a program outside a sandbox was told, and in one. */
async function answering(url: string): Promise<string[]> {
  const outside = await fetch(url).then(
    (answer) => answer.text(),
    () => "nobody",
  );
  const socket = replicas.connectProgram(new URL(url).origin);
  socket.write("GET / HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n");
  const inside = await text(socket).catch(() => "");
  return [outside, /first|second/.exec(inside)?.[0] ?? "nobody"];
}

async function end(name: string): Promise<void> {
  const server = servers.get(name);
  server?.closeAllConnections();
  await new Promise((resolve) => server?.close(resolve));
}

it.each([true, false])("leads them there, whether the name of the one that is gone stays or not: %s", async (stays) => {
  const told = replicas.pick().agentUrls().baseUrl ?? "";
  const [mine = ""] = await answering(told);
  expect(await answering(told)).toEqual([mine, mine]);
  const other = mine === "first" ? "second" : "first";
  await end(mine);
  if (!stays) named = named.slice(mine === "first" ? 1 : 0, mine === "first" ? 2 : 1);
  await waitFor(async () => (await answering(told)).every((name) => name === other), { timeoutMs: 15_000 });
});
