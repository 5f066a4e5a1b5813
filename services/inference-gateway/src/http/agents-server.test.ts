// SPDX-License-Identifier: Apache-2.0
// The port for agents, over HTTPS as on a cluster: what opens it, and what is not there.
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { connect } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { connect as connectTls } from "node:tls";
import { FleetService } from "@whetstone/proto/inference/v1/inference";
import { createClient } from "@whetstone/rpc";
import { silentLogger as logger } from "@whetstone/telemetry";
import { connectorTo, type Role, TlsIdentity } from "@whetstone/tls";
import { createAuthority, issue, writeTlsFolder } from "@whetstone/tls/issuer";
import { Agent, type Dispatcher, request } from "undici";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { FakeEngine } from "../../test/fake-engine.ts";
import { TINY } from "../../test/harness.ts";
import { type GatewayApp, startApp } from "../app.ts";
import { ConfigSchema } from "../config.ts";

const VALIDITY = { from: new Date(), days: 1 };
const MAX_BODY = 4096;
const authority = createAuthority(VALIDITY);
const root = mkdtempSync(join(tmpdir(), "whetstone-agents-port-"));
let engine: FakeEngine;
let app: GatewayApp;
let platform: TlsIdentity;
/** One of ours, with its certificate. */
let service: Agent;
/** A program elsewhere: it knows the authority, and has no certificate. */
let stranger: Agent;

beforeAll(async () => {
  engine = await FakeEngine.start();
  const settings = { httpPort: 0, grpcPort: 0, agentPort: 0, tlsPath: folderOf("gateway", ["127.0.0.1"]) };
  const limits = { maxBodyBytes: MAX_BODY, maxConnections: 20, receiveTimeoutMs: 500 };
  app = await startApp(ConfigSchema.parse({ ...settings, ...limits }), { logger });
  const asController = new TlsIdentity(folderOf("controller"), { logger });
  await using fleet = createClient(FleetService, app.grpcAddress, { tls: asController.to("gateway") });
  await fleet.registerEngine({ id: "e0", url: engine.url });
  const policy = { policy: "job", policyVersion: 1n, label: "job:1", modelPath: TINY };
  await fleet.unfenceEngine({ id: "e0", policy });
  asController[Symbol.dispose]();
  platform = new TlsIdentity(folderOf("orchestrator"), { logger });
  service = new Agent({ connect: connectorTo(platform.to("gateway")) });
  stranger = new Agent({ connect: { ca: authority.cert } });
});
afterAll(async () => {
  await service?.destroy();
  await stranger?.destroy();
  platform?.[Symbol.dispose]();
  await app?.close();
  await engine?.kill();
  rmSync(root, { recursive: true });
});

function folderOf(role: Role, names: string[] = []): string {
  writeTlsFolder(join(root, role), authority.cert, issue(authority, role, names, VALIDITY));
  return join(root, role);
}

interface Answer {
  readonly status: number;
  readonly text: string;
}

async function ask(url: string, options: Parameters<typeof request>[1] & { dispatcher: Dispatcher }): Promise<Answer> {
  const { statusCode: status, body } = await request(url, options);
  return { status, text: await body.text() };
}

const agentsUrl = (path: string): string => `${app.agentsUrl ?? ""}${path}`;
const asAgent = (path: string, headers: Record<string, string> = {}, body?: object): Promise<Answer> =>
  ask(agentsUrl(path), {
    dispatcher: stranger,
    ...(body === undefined ? {} : { method: "POST" as const, body: JSON.stringify(body) }),
    headers,
  });

async function keyOf(session: string): Promise<string> {
  const { text } = await ask(`${app.httpUrl}/s/${session}/key`, { dispatcher: service, method: "POST" });
  return (JSON.parse(text) as { key: string }).key;
}

const MESSAGES = [{ role: "user", content: "hi" }];
/** A right request of each dialect. */
const DIALECTS: [path: string, body: object][] = [
  ["/v1/chat/completions", { model: "job", messages: MESSAGES }],
  ["/v1/responses", { model: "job", input: "hi" }],
  ["/v1/messages", { model: "job", max_tokens: 5, messages: MESSAGES }],
  ["/v1/completions", { model: "job", prompt: "hi" }],
];

describe("with the key of an episode and no certificate", () => {
  it.each(DIALECTS)("answers %s, and records it in the episode's session", async (path, body) => {
    const session = `of${path.replaceAll("/", "-")}`;
    const headers = { authorization: `Bearer ${await keyOf(session)}` };
    expect(await asAgent(path, headers, body)).toMatchObject({ status: 200 });
    const { text } = await ask(`${app.httpUrl}/s/${session}/calls`, { dispatcher: service });
    expect((JSON.parse(text) as { calls: unknown[] }).calls).toHaveLength(1);
  });

  it("takes the key as Anthropic's clients send it, and lists the models", async () => {
    const headers = { "x-api-key": await keyOf("models") };
    const { text } = await asAgent("/v1/models", headers);
    expect(JSON.parse(text)).toMatchObject({ data: [{ id: "job" }] });
    expect((await asAgent("/v1/models/job", headers)).status).toBe(200);
  });

  it("says that it is there to who has no key yet, as claude-code asks first", async () => {
    const options = { dispatcher: stranger, method: "HEAD" as const };
    expect(await ask(agentsUrl("/"), options)).toEqual({ status: 200, text: "" });
    expect((await ask(agentsUrl("/v1/models"), options)).status).not.toBe(200);
  });

  it("takes no more of it once the episode has ended", async () => {
    const headers = { authorization: `Bearer ${await keyOf("ended")}` };
    const [path, body] = DIALECTS[0]!;
    expect((await asAgent(path, headers, body)).status).toBe(200);
    await ask(`${app.httpUrl}/s/ended/calls?close=true`, { dispatcher: service });
    expect((await asAgent(path, headers, body)).status).toBe(401);
  });
});

describe("without the key of an episode", () => {
  const none: [string, Record<string, string>][] = [
    ["no key", {}],
    ["a key that was not issued", { authorization: "Bearer ws-unknown" }],
    ["what clients send that have none", { authorization: "Bearer EMPTY" }],
    ["the same as Anthropic's", { "x-api-key": "none" }],
  ];
  it.each(none)("answers %s with 401 in the form of each dialect", async (_name, headers) => {
    const sampled = engine.requests.length;
    for (const [path, body] of DIALECTS) {
      const { status, text } = await asAgent(path, headers, body);
      const form =
        path === "/v1/messages"
          ? { type: "error", error: { type: "authentication_error" } }
          : { error: { code: "invalid_api_key", type: "invalid_request_error" } };
      expect([status, JSON.parse(text)], path).toMatchObject([401, form]);
    }
    for (const path of ["/v1/models", "/v1/models/job"]) expect((await asAgent(path, headers)).status, path).toBe(401);
    expect(engine.requests).toHaveLength(sampled);
  });

  it("refuses before it has read the body", async () => {
    const { port, hostname } = new URL(agentsUrl("/"));
    const socket = connectTls({ port: Number(port), host: hostname, ca: authority.cert });
    socket.write("POST /v1/messages HTTP/1.1\r\nhost: x\r\ncontent-length: 4000\r\n\r\n");
    const [first] = (await once(socket, "data")) as [Buffer];
    expect(first.toString()).toContain("HTTP/1.1 401");
    socket.destroy();
  });
});

describe("what is not there", () => {
  const routes: ["GET" | "POST" | "DELETE", string][] = [
    ["POST", "/s/mine/key"],
    ["POST", "/s/mine/v1/chat/completions"],
    ["GET", "/s/mine/v1/models"],
    ["GET", "/s/mine/calls"],
    ["DELETE", "/s/mine"],
    ["POST", "/s/mine/render"],
    ["GET", "/load"],
    ["GET", "/metrics"],
    ["GET", "/healthz"],
    ["GET", "/"],
    ["POST", "/whetstone.inference.v1.FleetService/FenceEngine"],
  ];
  it.each(routes)("%s %s: 404, whoever asks", async (method, path) => {
    for (const dispatcher of [stranger, service]) {
      const headers = { authorization: `Bearer ${await keyOf("mine")}` };
      expect((await ask(agentsUrl(path), { dispatcher, method, headers })).status).toBe(404);
    }
  });
});

describe("bounds", () => {
  it("refuses a body that is too long, and headers that are", async () => {
    const headers = { authorization: `Bearer ${await keyOf("long")}` };
    const body = { model: "job", messages: [{ role: "user", content: "x".repeat(MAX_BODY) }] };
    expect((await asAgent("/v1/chat/completions", headers, body)).status).toBe(413);
    expect((await asAgent("/v1/models", { ...headers, x: "x".repeat(20_000) })).status).toBe(431);
  });

  it("drops who does not send a whole request, and connections beyond the most", async () => {
    const { port, hostname: host } = new URL(agentsUrl("/"));
    const secured = connectTls({ port: Number(port), host, ca: authority.cert });
    secured.write(`POST /v1/messages HTTP/1.1\r\nhost: x\r\nauthorization: Bearer ${await keyOf("slow")}\r\n`);
    const [late] = (await once(secured, "data")) as [Buffer];
    expect(late.toString()).toContain("HTTP/1.1 408");
    const sockets = Array.from({ length: 25 }, () => connect({ port: Number(port), host }));
    const dropped = await Promise.race(sockets.map((socket) => once(socket, "close").then(() => true)));
    expect(dropped).toBe(true);
    for (const socket of sockets) socket.destroy();
  });

  it("keeps its other port for those who have a certificate", async () => {
    await expect(request(`${app.httpUrl}/healthz`, { dispatcher: stranger })).rejects.toThrow();
  });
});
