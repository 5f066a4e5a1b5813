// SPDX-License-Identifier: Apache-2.0
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Client, credentials } from "@grpc/grpc-js";
import { sleep } from "@whetstone/core";
import { JobService } from "@whetstone/proto/jobs/v1/jobs";
import { silentLogger as logger } from "@whetstone/telemetry";
import { type Role, TlsIdentity } from "@whetstone/tls";
import { createAuthority, issue, type IssuedPair, writeTlsFolder } from "@whetstone/tls/issuer";
import { afterAll, beforeAll, expect, it } from "vitest";
import { createClient, implement, type RpcServer, startServer } from "./index.ts";

const VALIDITY = { from: new Date(), days: 30 };
const authority = createAuthority(VALIDITY);
const root = mkdtempSync(join(tmpdir(), "whetstone-rpc-tls-"));
let server: RpcServer;
let serving: TlsIdentity;
let healthPort: number;

function write(name: string, role: Role, by = authority): string {
  writeTlsFolder(join(root, name), authority.cert, issue(by, role, [], VALIDITY));
  return join(root, name);
}

function identityOf(role: Role, by: IssuedPair = authority): TlsIdentity {
  return new TlsIdentity(write(`${role}-${Math.random()}`, role, by), { logger, pollMs: 60_000 });
}

const service = implement(JobService, {
  getJob: (_request, { caller }) => ({ job: { spec: { name: caller ?? "nobody" } } }),
  async *watchJob(_request, { signal }) {
    for (let index = 0; index < 100; index += 1) {
      yield { job: { spec: { name: `${index}` } } };
      await sleep(20, signal);
    }
  },
});

beforeAll(async () => {
  serving = new TlsIdentity(write("serving", "controller"), { logger, pollMs: 60_000 });
  healthPort = 20_000 + Math.floor(Math.random() * 10_000);
  const callers = { client: true, console: ["getJob"] } as const;
  server = await startServer({
    host: "127.0.0.1",
    port: 0,
    services: [service],
    logger,
    tls: serving,
    callers,
    healthPort,
  });
});

afterAll(async () => {
  await server.close(0);
  serving[Symbol.dispose]();
  rmSync(root, { recursive: true });
});

/** The caller's name as the handler saw it. */
async function ask(identity: TlsIdentity | undefined, peer: Role = "controller"): Promise<string> {
  await using client = createClient(JobService, server.address, { tls: identity?.to(peer), deadlineMs: 2_000 });
  return (await client.getJob({ name: "x" })).job?.spec?.name ?? "";
}

it("tells a handler who calls", async () => {
  using client = identityOf("client");
  expect(await ask(client)).toBe("client");
});

it("refuses roles that are not listed, and methods that are not", async () => {
  using trainer = identityOf("trainer");
  await expect(ask(trainer)).rejects.toThrow(/trainer may not call whetstone.jobs.v1.JobService\/GetJob/);
  using console = identityOf("console");
  expect(await ask(console)).toBe("console");
  await using client = createClient(JobService, server.address, { tls: console.to("controller") });
  await expect(client.cancelJob({ name: "x" })).rejects.toThrow(/may not call|not implement/);
  await expect(Array.fromAsync(client.watchJob({ name: "x" }))).rejects.toThrow(/may not call/);
});

it("has no connection for a caller without a certificate, or with one of another authority", async () => {
  await expect(ask(undefined)).rejects.toThrow(/cannot reach/);
  using stranger = identityOf("client", createAuthority(VALIDITY));
  await expect(ask(stranger)).rejects.toThrow(/cannot reach/);
});

it("has no connection to a server of another role", async () => {
  using client = identityOf("client");
  await expect(ask(client, "trainer")).rejects.toThrow(/cannot reach/);
});

it("answers probes in plain text, and nothing else there", async () => {
  const raw = (bytes: Buffer): Buffer => bytes;
  const probe = new Client(`127.0.0.1:${healthPort}`, credentials.createInsecure());
  const call = (path: string) =>
    new Promise<Buffer>((resolve, reject) => {
      probe.makeUnaryRequest(path, raw, raw, Buffer.alloc(0), (error, answer) => {
        if (error === null) resolve(answer as Buffer);
        else reject(error);
      });
    });
  expect([...(await call("/grpc.health.v1.Health/Check"))]).toEqual([0x08, 1]);
  await expect(call("/whetstone.jobs.v1.JobService/GetJob")).rejects.toThrow(/UNIMPLEMENTED/);
  probe.close();
});

it("takes a new authority and certificate while a stream runs", async () => {
  using before = identityOf("client");
  await using client = createClient(JobService, server.address, { tls: before.to("controller") });
  const seen: string[] = [];
  const stream = (async () => {
    for await (const { job } of client.watchJob({ name: "x" })) {
      seen.push(job?.spec?.name ?? "");
    }
  })();
  await sleep(200);
  const next = createAuthority(VALIDITY);
  const folder = join(root, "serving");
  writeTlsFolder(folder, next.cert, issue(next, "controller", [], VALIDITY));
  await serving.reload();
  await expect(ask(before)).rejects.toThrow(/cannot reach/);
  writeTlsFolder(join(root, "late"), next.cert, issue(next, "client", [], VALIDITY));
  using after = new TlsIdentity(join(root, "late"), { logger });
  expect(await ask(after)).toBe("client");
  await stream;
  expect(seen).toHaveLength(100);
});
