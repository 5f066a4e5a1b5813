// SPDX-License-Identifier: Apache-2.0
// JobService over gRPC and a real nats-server: what a caller may say in a name, and in a change of a job.
import { fromJson, type JsonObject } from "@bufbuild/protobuf";
import type { Duration } from "@bufbuild/protobuf/wkt";
import { type ConfigError, WhetstoneError } from "@whetstone/core";
import type { Kube } from "@whetstone/kube";
import { ensurePlatform, type Nats, openBundleStore, openStreams } from "@whetstone/messaging";
import { DESIRED } from "@whetstone/messaging/jobs";
import { type DesiredState, JobPhase, JobService, JobSpecSchema } from "@whetstone/proto/jobs/v1/jobs";
import { createClient, type RpcClient, type RpcServer, startServer } from "@whetstone/rpc";
import { silentLogger } from "@whetstone/telemetry";
import { startNats, type TestNats } from "@whetstone/testkit";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { JobRecords } from "./job-records.ts";
import { JobStore } from "../job-store.ts";
import { readLedger } from "../../loop/batch/kv-ledger.ts";
import { TrainingJobs } from "../../operator/training-job/objects.ts";
import { jobService } from "./job-service.ts";

let nats: TestNats;
let connection: Nats;
let server: RpcServer;
let store: JobStore;
let client: RpcClient<typeof JobService>;

const spec: JsonObject = {
  name: "fl",
  model: { path: "/models/tiny" },
  agent: { kind: "frozenlake" },
  environment: { kind: "frozenlake" },
  train: { seeds: { first: "1", count: "100" } },
  algorithm: { policyGradient: { groupSize: 4 } },
  loop: { steps: 3, batchGroups: 2 },
};

beforeAll(async () => {
  nats = await startNats();
  connection = await nats.connect();
  await ensurePlatform(connection);
  store = await JobStore.open(connection);
  server = await serve(undefined);
  client = createClient(JobService, server.address);
  await client.submitJob({ spec: fromJson(JobSpecSchema, spec) });
  const evaluation = { ...spec, name: "judged", train: undefined, algorithm: undefined, loop: { steps: 0 } };
  const validation = { dataset: { seeds: { count: "2" } } };
  await client.submitJob({ spec: fromJson(JobSpecSchema, JSON.parse(JSON.stringify({ ...evaluation, validation }))) });
});

/** @param objects  where jobs are objects of a cluster */
async function serve(objects: TrainingJobs | undefined): Promise<RpcServer> {
  const service = jobService({
    store,
    records: new JobRecords(await openStreams(connection), await readLedger(connection), () => "/nowhere"),
    storedRuns: { checkpoints: (_, onDisk) => Promise.resolve({ checkpoints: [...onDisk], notice: "" }) },
    bundles: openBundleStore(connection),
    rollouts: { replay: () => Promise.reject(new WhetstoneError("UNAVAILABLE", "nobody plays here")) },
    audit: () => Promise.reject(new WhetstoneError("INTERNAL", "the books were opened")),
    pin: (spec) => Promise.resolve({ spec, violations: [] }),
    deleteJob: () => Promise.reject(new WhetstoneError("INTERNAL", "it was deleted")),
    checkWorld: () => Promise.resolve([]),
    natsWatch: {
      overlay: (job) => job,
      async *withChanges(jobs) {
        yield* jobs;
      },
    },
    objects,
  });
  return await startServer({ host: "127.0.0.1", port: 0, services: [service], logger: silentLogger });
}

afterAll(async () => {
  await client[Symbol.asyncDispose]();
  await server[Symbol.asyncDispose]();
  await connection[Symbol.asyncDispose]();
  await nats[Symbol.asyncDispose]();
});

async function failure(work: Promise<unknown>): Promise<WhetstoneError> {
  return await work.then(
    () => expect.fail("it was taken"),
    (error: unknown) => WhetstoneError.from(error),
  );
}

async function all(stream: AsyncIterable<unknown>): Promise<void> {
  for await (const _ of stream) expect.fail("it streams");
}

const CALLS: Record<string, (name: string) => Promise<unknown>> = {
  GetJob: (name) => client.getJob({ name }),
  WatchJob: (name) => all(client.watchJob({ name }, { deadlineMs: 5000 })),
  UpdateJob: (name) => client.updateJob({ name, steps: 4 }),
  SuspendJob: (name) => client.suspendJob({ name }),
  ResumeJob: (name) => client.resumeJob({ name }),
  CancelJob: (name) => client.cancelJob({ name }),
  ListCheckpoints: (name) => client.listCheckpoints({ name }),
  StreamMetrics: (name) => all(client.streamMetrics({ name }, { deadlineMs: 5000 })),
  "StreamMetrics that follows": (name) => all(client.streamMetrics({ name, follow: true }, { deadlineMs: 5000 })),
  StreamEpisodes: (name) => all(client.streamEpisodes({ name }, { deadlineMs: 5000 })),
  Explain: (name) => client.explain({ name, step: 0 }),
  AuditJob: (name) => client.auditJob({ name }),
};
const ODD = [
  "",
  " ",
  ".",
  "*",
  ">",
  "a.b",
  "a b",
  "a/b",
  "../x",
  "UPPER",
  "ä",
  "a\nb",
  "a\0b",
  "-a",
  "a".repeat(53),
  "🎲",
];
const ODD_IDS = [
  "",
  "/",
  "//",
  "fl",
  "fl/g0",
  "fl/g0/s",
  "fl/g0/s0/x",
  "*/>/s0",
  "fl/*/s0",
  "FL/g0/s0",
  `fl/${"g".repeat(99)}/s0`,
];

describe("an odd name", () => {
  it.each(Object.entries(CALLS))(
    "in %s is refused by path, and one that nobody has is not found",
    async (_name, call) => {
      for (const name of ODD) {
        const error = (await failure(call(name))) as ConfigError;
        expect([name, error.code, error.violations?.[0]?.path]).toEqual([name, "INVALID_ARGUMENT", "name"]);
      }
      expect((await failure(call("nobody"))).code).toBe("NOT_FOUND");
    },
  );

  it("of an episode is refused, or not found", async () => {
    for (const episodeId of ODD_IDS) {
      expect([episodeId, (await failure(client.getEpisode({ episodeId }))).code]).toEqual([
        episodeId,
        "INVALID_ARGUMENT",
      ]);
      expect((await failure(client.replayEpisode({ episodeId }))).code).toBe("INVALID_ARGUMENT");
    }
    expect((await failure(client.getEpisode({ episodeId: "nobody/g0/s0" }))).code).toBe("NOT_FOUND");
  });

  it("in a page token is refused", async () => {
    for (const pageToken of ["x", "1/", "/a", "\0"])
      expect((await failure(client.listJobs({ pageToken }))).code).toBe("INVALID_ARGUMENT");
  });
});

describe("UpdateJob", () => {
  const seconds = (value: bigint, nanos = 0): Pick<Duration, "seconds" | "nanos"> => ({ seconds: value, nanos });
  it.each<[string, object, string]>([
    ["4e9 steps", { steps: 4_000_000_000 }, "steps"],
    ["a timeout of -5", { timeout: seconds(-5n) }, "timeout"],
    ["a timeout of 0", { timeout: seconds(0n) }, "timeout"],
    ["a timeout longer than history", { timeout: seconds(2n ** 62n) }, "timeout"],
    ["a timeout that is none", { timeout: seconds(5n, -1) }, "timeout"],
  ])("refuses %s by path, and changes nothing", async (_name, change, path) => {
    const error = (await failure(client.updateJob({ name: "fl", ...change }))) as ConfigError;
    expect(error.violations.map((violation) => violation.path)).toEqual([path]);
    const { job } = await client.getJob({ name: "fl" });
    expect([job?.spec?.loop?.steps, job?.spec?.timeout]).toEqual([3, undefined]);
  });

  it("refuses steps of a job that says nothing of training", async () => {
    const error = (await failure(client.updateJob({ name: "judged", steps: 5 }))) as ConfigError;
    expect(error.violations.map(({ path }) => path)).toEqual(["loop.batchGroups", "train", "algorithm"]);
  });

  it("takes what a new job may say", async () => {
    const { job } = await client.updateJob({ name: "fl", steps: 9, timeout: { seconds: 60n } });
    expect([job?.spec?.loop?.steps, job?.spec?.timeout?.seconds]).toEqual([9, 60n]);
  });
});

describe("what a job has to become", () => {
  const submit = async (name: string) => await client.submitJob({ spec: fromJson(JobSpecSchema, { ...spec, name }) });
  const said = async (name: string): Promise<DesiredState | undefined> => (await store.get(name)).desiredState;

  it("is what its user says last, and an end stays", async () => {
    const { job } = await submit("steered");
    expect(job?.desiredState).toEqual(DESIRED.run());
    for (const [call, desired] of [
      ["suspendJob", DESIRED.suspendByUser()],
      ["resumeJob", DESIRED.run()],
      ["cancelJob", DESIRED.cancelByUser()],
      ["resumeJob", DESIRED.cancelByUser()],
      ["suspendJob", DESIRED.cancelByUser()],
    ] as const) {
      expect((await client[call]({ name: "steered" })).job?.desiredState).toEqual(desired);
      expect(await said("steered")).toEqual(desired);
    }
  });

  it("cannot be said of a job that has ended, except that it ends", async () => {
    await submit("over");
    await store.change("over", ({ status }) => void (status && (status.phase = JobPhase.SUCCEEDED)));
    expect((await failure(client.suspendJob({ name: "over" }))).code).toBe("CONFLICT");
    expect((await client.cancelJob({ name: "over" })).job?.status?.phase).toBe(JobPhase.SUCCEEDED);
    expect(await said("over")).toEqual(DESIRED.run());
  });

  it("is left to the reconciler where a job with an object is resumed: it may have to wait", async () => {
    const patches: unknown[] = [];
    const patch = (_type: unknown, _name: string, { spec }: { spec: object }) =>
      Promise.resolve({ metadata: { generation: patches.push(spec) } });
    await using there = await serve(new TrainingJobs({ patch } as unknown as Kube));
    await using cluster = createClient(JobService, there.address);
    await submit("object");
    await cluster.suspendJob({ name: "object" });
    expect(await store.get("object")).toMatchObject({ desiredState: DESIRED.suspendByUser(), generation: 1n });
    await cluster.resumeJob({ name: "object" });
    expect(await store.get("object")).toMatchObject({ desiredState: DESIRED.suspendByUser(), generation: 1n });
    expect(patches).toEqual([{ suspend: true }, { suspend: false }]);
  });
});
