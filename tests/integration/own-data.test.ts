// SPDX-License-Identifier: Apache-2.0
// A job where trainer, engines and gateway share no folder with the controller, as on several nodes: its model comes by digest,
// its weights and checkpoints through the object store, and a trainer that loses all it has goes on.
import { existsSync, mkdtempSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fromJson, type JsonObject } from "@bufbuild/protobuf";
import { WhetstoneError } from "@whetstone/core";
import { JobService, JobSpecSchema } from "@whetstone/proto/jobs/v1/jobs";
import { createClient, type RpcClient } from "@whetstone/rpc";
import { objectStoreProgram, type ObjectStoreServer, startObjectStore } from "@whetstone/testkit";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { type LocalRuntime, startLocalRuntime } from "../support/local-runtime.ts";
import { atStep, changingJob, endsWell } from "../support/watched-jobs.ts";

const STEPS = 12;
const built = objectStoreProgram();
const skipped = "missing" in built ? built.missing : "";

describe.skipIf(skipped !== "")(`no shared data folder${skipped && ` (skipped: ${skipped})`}`, () => {
  const objects = mkdtempSync(join(tmpdir(), "whetstone-objects-"));
  let store: ObjectStoreServer;
  let runtime: LocalRuntime;
  let jobs: RpcClient<typeof JobService>;
  let digest: string;

  beforeAll(async () => {
    store = await startObjectStore((built as { program: string }).program, objects);
    Object.assign(process.env, store.environment);
    runtime = await startLocalRuntime("--object-store", store.url, "--own-data");
    jobs = createClient(JobService, runtime.address("controller"));
    const { status, json, output } = runtime.whet("models", "push", "tiny", runtime.model);
    expect(status, output).toBe(0);
    ({ digest } = json as { digest: string });
  }, 240_000);
  afterAll(async () => {
    await jobs[Symbol.asyncDispose]();
    await runtime[Symbol.asyncDispose]();
    store[Symbol.dispose]();
    rmSync(objects, { recursive: true, force: true });
  });

  const own = (service: string, ...below: string[]): string => join(runtime.data, "own", service, ...below);
  const submit = (job: JsonObject) => jobs.submitJob({ spec: fromJson(JobSpecSchema, job) });
  const refusal = async (job: JsonObject): Promise<string> =>
    submit(job).then(
      () => expect.fail("it was accepted"),
      (error: unknown) => WhetstoneError.from(error).message,
    );

  it("a job that needs one is refused by path", async () => {
    const byPath = changingJob("by-path", runtime.model, 1, { objectStore: {} });
    expect(await refusal(byPath)).toMatch(/^model\.path: is the path of a folder, and .*whet models push/);
    for (const transport of [{ folder: {} }, { stream: {} }])
      expect(await refusal(changingJob("by-folder", "artifact://models/tiny", 1, transport))).toMatch(
        /^weights\.transport: must be objectStore: /,
      );
  });

  it("trains, survives the loss of all that the trainer has, and is deleted everywhere", async () => {
    const { job } = await submit(changingJob("apart", "artifact://models/tiny", STEPS, { objectStore: {} }));
    const uid = job?.uid ?? "";
    await atStep(jobs, "apart", 3);
    const model = join("artifacts/sha256", digest, "files/model.safetensors");
    for (const service of ["trainer", "engine-0"]) expect(existsSync(own(service, model)), service).toBe(true);
    process.kill(runtime.services().find(({ name }) => name === "trainer")?.pid ?? 0, "SIGKILL");
    rmSync(own("trainer"), { recursive: true, force: true });
    await endsWell(runtime, jobs, "apart", STEPS);
    expect(existsSync(own("trainer", model))).toBe(true);
    expect(readdirSync(own("trainer", "runs"))).toEqual([uid]);
    expect(existsSync(join(runtime.data, "runs"))).toBe(false);
    const { checkpoints } = await jobs.listCheckpoints({ name: "apart" });
    expect(checkpoints[0]).toMatchObject({
      step: STEPS,
      path: `s3://bucket/team/runs/${uid}/checkpoints/step-${STEPS}`,
    });
    await jobs.deleteJob({ name: "apart" });
    expect(readdirSync(own("trainer", "runs"))).toEqual([]);
    expect(existsSync(store.file(`runs/${uid}`))).toBe(false);
  }, 400_000);
});
