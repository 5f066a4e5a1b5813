// SPDX-License-Identifier: Apache-2.0
// Two jobs that train and an evaluation share three engines and two trainers, whose processes are killed meanwhile.
import { fromJson, type JsonObject } from "@bufbuild/protobuf";
import { FleetViewService } from "@whetstone/proto/inference/v1/inference";
import { type Job, JobPhase, JobService, JobSpecSchema } from "@whetstone/proto/jobs/v1/jobs";
import { createClient, type RpcClient } from "@whetstone/rpc";
import { waitFor } from "@whetstone/testkit";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { type LocalRuntime, smallJob, startLocalRuntime } from "../support/local-runtime.ts";

const STEPS = 8;
const LONG = { timeoutMs: 180_000 };

describe("several jobs at once", () => {
  let runtime: LocalRuntime;
  let jobs: RpcClient<typeof JobService>;

  beforeAll(async () => {
    runtime = await startLocalRuntime("--engines", "3", "--trainers", "2");
    jobs = createClient(JobService, runtime.address("controller"));
  }, 120_000);
  afterAll(async () => {
    await jobs[Symbol.asyncDispose]();
    await runtime[Symbol.asyncDispose]();
  });

  const submit = (spec: JsonObject) => jobs.submitJob({ spec: fromJson(JobSpecSchema, spec) });
  /** A call may meet the very process that was killed; it is asked again. */
  const ask = async (name: string): Promise<Job | undefined> =>
    (await jobs.getJob({ name }).catch(() => undefined))?.job;
  const phaseOf = async (name: string): Promise<JobPhase> => {
    const status = (await ask(name))?.status;
    if (status?.phase === JobPhase.FAILED) throw new Error(`job ${name} failed: ${status.message}`);
    return status?.phase ?? JobPhase.UNSPECIFIED;
  };
  const stepOf = async (name: string): Promise<number> => (await ask(name))?.status?.step ?? 0;
  const expectBalanced = (name: string): void => {
    const audit = runtime.whet("jobs", "audit", name);
    expect(audit.json, audit.output).toMatchObject({ lost: 0, duplicated: 0, stale: 0, unlabelled: 0, inFlight: 0 });
  };

  it("run side by side, a third that trains waits for a trainer, and every book balances", async () => {
    for (const name of ["one", "two", "waits"]) await submit(smallJob(name, runtime.model, { steps: STEPS, lag: 1 }));
    await waitFor(async () => (await stepOf("one")) >= 1 && (await stepOf("two")) >= 1, LONG);
    expect(await phaseOf("waits")).toBe(JobPhase.QUEUED);
    await submit(evaluation("measured", runtime.model));
    await waitFor(async () => (await phaseOf("measured")) === JobPhase.SUCCEEDED, LONG);
    expect((await ask("measured"))?.status?.validations[0]).toMatchObject({ episodes: 64, voided: 0 });
    for (const name of ["one", "two", "waits"])
      await waitFor(async () => (await phaseOf(name)) === JobPhase.SUCCEEDED, LONG);
    for (const name of ["one", "two", "waits"]) expectBalanced(name);
  }, 240_000);

  it.each(["engine-1", "trainer-1", "gateway", "controller"])(
    "survive kill -9: %s",
    async (service) => {
      const names = ["a", "b"].map((name) => `${name}-${service}`);
      for (const name of names) await submit(smallJob(name, runtime.model, { steps: STEPS, lag: 1 }));
      for (const name of names) await waitFor(async () => (await stepOf(name)) >= 2, LONG);
      const { pid = 0, crashes } = infoOf(runtime, service);
      process.kill(pid, "SIGKILL");
      await waitFor(() => infoOf(runtime, service).crashes > crashes, { timeoutMs: 30_000 });
      for (const name of names) await waitFor(async () => (await phaseOf(name)) === JobPhase.SUCCEEDED, LONG);
      for (const name of names) expect(await stepOf(name)).toBe(STEPS);
      for (const name of names) expectBalanced(name);
    },
    240_000,
  );

  it("share the engines as they say", async () => {
    await submit(smallJob("light", runtime.model, { steps: 30 }));
    await submit({ ...smallJob("heavy", runtime.model, { steps: 30 }), weight: 2 });
    await using view = createClient(FleetViewService, runtime.address("controller"));
    const served = async (): Promise<string> => {
      const { fleets } = await view.listFleets({});
      return fleets
        .flatMap(({ replicas }) => replicas.map(({ policy }) => policy))
        .sort()
        .join();
    };
    await waitFor(async () => (await served()) === "heavy,heavy,light", LONG);
    for (const name of ["light", "heavy"]) await jobs.cancelJob({ name });
    for (const name of ["light", "heavy"])
      await waitFor(async () => (await phaseOf(name)) === JobPhase.CANCELLED, LONG);
    for (const name of ["light", "heavy"]) expectBalanced(name);
  }, 240_000);
});

function evaluation(name: string, model: string): JsonObject {
  const { train: _, algorithm: __, ...rest } = smallJob(name, model);
  return { ...rest, loop: { steps: 0 }, validation: { dataset: { seeds: { first: "900000", count: "64" } } } };
}

function infoOf(runtime: LocalRuntime, service: string) {
  const info = runtime.services().find(({ name }) => name === service);
  if (!info) throw new Error(`no service ${service}`);
  return info;
}
