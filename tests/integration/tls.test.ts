// SPDX-License-Identifier: Apache-2.0
// The loop with mutual TLS on every connection: it trains, and each listener refuses callers of other roles.
import { existsSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fromJson } from "@bufbuild/protobuf";
import {
  connectNats,
  episodeStream,
  followStoreTroubles,
  openStreams,
  type StoreTrouble,
  taskSubject,
} from "@whetstone/messaging";
import { ArtifactKind, ArtifactService } from "@whetstone/proto/artifacts/v1/artifacts";
import { EnvironmentService } from "@whetstone/proto/environments/v1/environments";
import { FleetService } from "@whetstone/proto/inference/v1/inference";
import { JobPhase, JobService, JobSpecSchema } from "@whetstone/proto/jobs/v1/jobs";
import { TrainerService } from "@whetstone/proto/trainer/v1/trainer";
import { createClient } from "@whetstone/rpc";
import { silentLogger as logger } from "@whetstone/telemetry";
import { objectStoreProgram, startObjectStore, waitFor } from "@whetstone/testkit";
import { connectorTo, type Role, TlsIdentity } from "@whetstone/tls";
import { Agent, request } from "undici";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { smallJob } from "../support/local-runtime.ts";
import { startTlsRuntime, type TlsRuntime } from "../support/tls-runtime.ts";

const built = objectStoreProgram();

describe("with TLS between all services", () => {
  let runtime: TlsRuntime;
  beforeAll(async () => {
    runtime = await startTlsRuntime();
  }, 120_000);
  afterAll(() => runtime?.[Symbol.asyncDispose](), 30_000);

  const as = (role: Role): TlsIdentity => new TlsIdentity(runtime.folder(role), { logger });
  const connectAs = (role: Role) =>
    connectNats({
      servers: `tls://127.0.0.1:${runtime.nats.port}`,
      name: "test",
      logger,
      tls: as(role),
      timeoutMs: 2_000,
    });

  it("a client submits a job, and it trains", async () => {
    await using client = createClient(JobService, runtime.address("controller"), {
      tls: as("client").to("controller"),
    });
    await client.submitJob({ spec: fromJson(JobSpecSchema, smallJob("tls", runtime.model)) });
    const phase = async (): Promise<JobPhase | undefined> => (await client.getJob({ name: "tls" })).job?.status?.phase;
    await waitFor(async () => [JobPhase.SUCCEEDED, JobPhase.FAILED].includes((await phase()) ?? 0), {
      timeoutMs: 90_000,
    });
    expect((await client.getJob({ name: "tls" })).job?.status).toMatchObject({ phase: JobPhase.SUCCEEDED });
    // Nobody lacks a right that the loop needs.
    for (const service of ["controller", "orchestrator", "trainer"])
      expect(runtime.log(service)).not.toMatch(/violation|may not call/i);
  }, 120_000);

  it("a caller of a wrong role is refused at every gRPC listener", async () => {
    await using jobs = createClient(JobService, runtime.address("controller"), {
      tls: as("env-runner").to("controller"),
    });
    await expect(jobs.listJobs({})).rejects.toThrow(/env-runner may not call/);
    await using fleet = createClient(FleetService, runtime.address("fleet"), { tls: as("orchestrator").to("gateway") });
    await expect(fleet.listEngines({})).rejects.toThrow(/orchestrator may not call/);
    await using people = createClient(FleetService, runtime.address("fleet"), { tls: as("client").to("gateway") });
    expect((await people.listEngines({})).engines).toHaveLength(1);
    await expect(people.fenceEngine({ id: "e0" })).rejects.toThrow(/client may not call/);
    await using trainer = createClient(TrainerService, runtime.address("trainer"), {
      tls: as("gateway").to("trainer"),
    });
    await expect(trainer.status({})).rejects.toThrow(/gateway may not call/);
    await using runner = createClient(EnvironmentService, runtime.address("env-runner"), {
      tls: as("engine").to("env-runner"),
    });
    await expect(runner.describe({})).rejects.toThrow(/engine may not call/);
  });

  it.each(["env-runner", "trainer", "engine", "gateway"] as const)(
    "role %s reads artifacts by digest, and neither their names nor anything else of the controller's",
    async (role) => {
      const tls = as(role).to("controller");
      await using artifacts = createClient(ArtifactService, runtime.address("controller"), { tls });
      const digest = "ab".repeat(32);
      await expect(artifacts.getArtifact({ of: { case: "digest", value: digest } })).rejects.toThrow(
        /not in the store/,
      );
      const name = { kind: ArtifactKind.MODELS, name: "tiny" };
      await expect(artifacts.getArtifact({ of: { case: "name", value: name } })).rejects.toThrow(/asks by digest/);
      await expect(artifacts.listArtifacts({ kind: ArtifactKind.MODELS })).rejects.toThrow(`${role} may not call`);
      await expect(artifacts.abortPush({ digest })).rejects.toThrow(`${role} may not call`);
      await using jobs = createClient(JobService, runtime.address("controller"), { tls });
      await expect(jobs.listJobs({})).rejects.toThrow(`${role} may not call`);
    },
  );

  it("a caller without a certificate reaches nothing", async () => {
    await using jobs = createClient(JobService, runtime.address("controller"), { deadlineMs: 2_000 });
    await expect(jobs.listJobs({})).rejects.toThrow(/cannot reach/);
    for (const service of ["gateway", "engine"])
      await expect(request(`https://${runtime.address(service)}/metrics`)).rejects.toThrow();
    const plain = connectNats({
      servers: `nats://127.0.0.1:${runtime.nats.port}`,
      name: "test",
      logger,
      timeoutMs: 2_000,
    });
    await expect(plain).rejects.toThrow(/cannot connect/);
  });

  it("an engine obeys the controller only, and samples for the gateway", async () => {
    const ask = async (role: Role, path: string): Promise<number> => {
      const dispatcher = new Agent({ connect: connectorTo(as(role).to("engine")) });
      const { statusCode, body } = await request(`https://${runtime.address("engine")}${path}`, { dispatcher });
      await body.dump();
      await dispatcher.destroy();
      return statusCode;
    };
    expect(await ask("gateway", "/v1/models")).toBe(200);
    expect(await ask("env-runner", "/v1/models")).toBe(403);
    expect(await ask("client", "/v1/models")).toBe(403);
  });

  it("NATS knows who publishes, and env-runners not at all", async () => {
    await expect(connectAs("env-runner")).rejects.toThrow(/cannot connect/);
    await expect(connectAs("gateway")).rejects.toThrow(/cannot connect/);
    await using trainer = await connectAs("trainer");
    expect(await refusal(trainer, () => trainer.publish(taskSubject("tls")))).toMatch(/permissions violation/i);
    expect(await refusal(trainer, () => trainer.publish(`$JS.API.STREAM.DELETE.${episodeStream("tls")}`))).toMatch(
      /violation/i,
    );
    await using orchestrator = await connectAs("orchestrator");
    expect(await refusal(orchestrator, () => orchestrator.publish("$KV.ws-ledger.tls.epoch"))).toMatch(/violation/i);
    await using client = await connectAs("client");
    const streams = await openStreams(client, { logger });
    expect(streams).toBeDefined();
    expect(await refusal(client, () => client.publish("$KV.ws-jobs.tls"))).toMatch(/violation/i);
  });

  it.skipIf("missing" in built)("an orchestrator has the rights to put bodies into an object store", async () => {
    const folder = mkdtempSync(join(tmpdir(), "whetstone-objects-"));
    using store = await startObjectStore((built as { program: string }).program, folder);
    Object.assign(process.env, store.environment);
    const options = { logger, store: { url: store.url, style: undefined, env: process.env }, storeEpisodes: true };
    await using orchestrator = await connectAs("orchestrator");
    await using controller = await connectAs("controller");
    const [puts, reads] = [await openStreams(orchestrator, options), await openStreams(controller, options)];
    const of = { job: "tls", isEpisode: true };
    const claim = await puts.claims.put(of, Buffer.from("a body"));
    expect(Buffer.from(await reads.claims.get(claim)).toString()).toBe("a body");
    const troubles: StoreTrouble[] = [];
    using _following = followStoreTroubles(controller, (trouble) => troubles.push(trouble));
    await controller.flush();
    store.stop();
    await expect(puts.claims.put(of, Buffer.from("another"))).rejects.toThrow(/the object store fails/);
    await expect.poll(() => troubles).toHaveLength(1);
    await store.start();
    await reads.claims.deleteFromStore("tls");
    expect(existsSync(store.file(claim.name))).toBe(false);
    rmSync(folder, { recursive: true, force: true });
  });
});

/** What the server says to a message. */
async function refusal(connection: Awaited<ReturnType<typeof connectNats>>, send: () => void): Promise<string> {
  const statuses = connection.status()[Symbol.asyncIterator]();
  send();
  await connection.flush();
  for (;;) {
    const { value, done } = await statuses.next();
    if (done === true) return "closed";
    if (value.type === "error") return value.error.message;
  }
}
