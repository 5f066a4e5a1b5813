// SPDX-License-Identifier: Apache-2.0
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { silentLogger as logger } from "@whetstone/telemetry";
import { connectorTo, type Role, TlsIdentity } from "@whetstone/tls";
import { createAuthority, issue, writeTlsFolder } from "@whetstone/tls/issuer";
import { Agent, request } from "undici";
import { afterAll, beforeAll, expect, it } from "vitest";
import { type GatewayApp, startApp } from "../app.ts";
import { ConfigSchema } from "../config.ts";

const VALIDITY = { from: new Date(), days: 1 };
const authority = createAuthority(VALIDITY);
const root = mkdtempSync(join(tmpdir(), "whetstone-gateway-tls-"));
let app: GatewayApp;

function folderOf(role: Role): string {
  writeTlsFolder(join(root, role), authority.cert, issue(authority, role, [], VALIDITY));
  return join(root, role);
}

beforeAll(async () => {
  const config = ConfigSchema.parse({ httpPort: 0, grpcPort: 0, tlsPath: folderOf("gateway") });
  app = await startApp(config, { logger });
});
afterAll(async () => {
  await app.close();
  rmSync(root, { recursive: true });
});

async function healthAs(role: Role): Promise<number> {
  using identity = new TlsIdentity(folderOf(role), { logger });
  const dispatcher = new Agent({ connect: connectorTo(identity.to("gateway")) });
  try {
    return (await request(`${app.httpUrl}/healthz`, { dispatcher })).statusCode;
  } finally {
    await dispatcher.destroy();
  }
}

it("answers those who may call it", async () => {
  expect(app.httpUrl).toMatch(/^https:/);
  expect(await healthAs("orchestrator")).toBe(200);
  expect(await healthAs("client")).toBe(200);
});

it("has no connection for other roles, and none without a certificate", async () => {
  await expect(healthAs("env-runner")).rejects.toThrow();
  await expect(request(`${app.httpUrl}/healthz`)).rejects.toThrow();
  await expect(request(`${app.httpUrl.replace("https", "http")}/healthz`)).rejects.toThrow();
});

it("takes sessions over from another gateway alone", async () => {
  const statusAs = async (role: Role): Promise<number> => {
    using identity = new TlsIdentity(folderOf(role), { logger });
    const dispatcher = new Agent({ connect: connectorTo(identity.to("gateway")) });
    try {
      const asked = {
        method: "POST",
        body: "{}",
        headers: { "content-type": "application/json" },
        dispatcher,
      } as const;
      return (await request(`${app.httpUrl}/handover/x`, asked)).statusCode;
    } finally {
      await dispatcher.destroy();
    }
  };
  expect(await statusAs("orchestrator")).toBe(403);
  expect(await statusAs("client")).toBe(403);
  expect(await statusAs("gateway")).toBe(409);
});

it("hands its own over to another gateway, as a caller with a certificate", async () => {
  const tlsPath = folderOf("gateway");
  const start = (handoverUrl: string[]): Promise<GatewayApp> =>
    startApp({ ...ConfigSchema.parse({ httpPort: 0, grpcPort: 0, tlsPath }), drainMs: 3_000, handoverUrl }, { logger });
  const peer = await start([]);
  const old = await start([peer.httpUrl]);
  using identity = new TlsIdentity(folderOf("orchestrator"), { logger });
  const dispatcher = new Agent({ connect: connectorTo(identity.to("gateway")) });
  try {
    await request(`${old.httpUrl}/s/mine/key`, { method: "POST", dispatcher });
    const left = old.leave();
    while ((await request(`${peer.httpUrl}/s/mine`, { dispatcher })).statusCode === 404);
    // The old one still leads there.
    const tree = await request(`${old.httpUrl}/s/mine/calls?close=true`, { dispatcher });
    expect(await tree.body.json()).toMatchObject({ session: "mine" });
    expect((await request(`${peer.httpUrl}/s/mine`, { dispatcher })).statusCode).toBe(404);
    await left;
  } finally {
    await dispatcher.destroy();
    await peer.close();
  }
});
