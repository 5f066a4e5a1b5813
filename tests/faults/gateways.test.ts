// SPDX-License-Identifier: Apache-2.0
// Several gateways on one machine: a job is played over both of them, also when one is killed or hangs.
import { fromJson } from "@bufbuild/protobuf";
import { JobPhase, JobService, JobSpecSchema } from "@whetstone/proto/jobs/v1/jobs";
import { createClient, type RpcClient } from "@whetstone/rpc";
import { waitFor } from "@whetstone/testkit";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { type LocalRuntime, smallJob, startLocalRuntime } from "../support/local-runtime.ts";

const STEPS = 6;

describe("a job over two gateways and two engines", () => {
  let runtime: LocalRuntime;
  let jobs: RpcClient<typeof JobService>;

  beforeAll(async () => {
    runtime = await startLocalRuntime("--gateways", "2", "--engines", "2");
    jobs = createClient(JobService, runtime.address("controller"));
  }, 240_000);
  afterAll(async () => {
    await jobs?.[Symbol.asyncDispose]();
    await runtime?.[Symbol.asyncDispose]();
  });

  const info = (service: string) => {
    const found = runtime.services().find(({ name }) => name === service);
    if (!found) throw new Error(`no service ${service}`);
    return found;
  };

  async function submit(name: string): Promise<void> {
    await jobs.submitJob({ spec: fromJson(JobSpecSchema, smallJob(name, runtime.model, { steps: STEPS, lag: 1 })) });
  }

  async function statusOf(name: string) {
    const { job } = await jobs.getJob({ name });
    if (job?.status?.phase === JobPhase.FAILED) throw new Error(`job ${name} failed: ${job.status.message}`);
    return job?.status;
  }

  async function atStep(name: string, step: number): Promise<void> {
    await waitFor(async () => ((await statusOf(name))?.step ?? 0) >= step, { timeoutMs: 60_000 });
  }

  async function balances(name: string): Promise<void> {
    await waitFor(async () => (await statusOf(name))?.phase === JobPhase.SUCCEEDED, { timeoutMs: 120_000 });
    const audit = runtime.whet("jobs", "audit", name);
    expect(audit.json, audit.output).toMatchObject({ lost: 0, duplicated: 0, stale: 0, unlabelled: 0, inFlight: 0 });
  }

  /** Calls that a gateway has answered since it began. */
  async function answered(gateway: string): Promise<number> {
    const text = await (await fetch(`http://${runtime.address(gateway, "http")}/metrics`)).text();
    return Number(/gateway_requests_total\{[^}]*code="200"[^}]*\} (\d+)/.exec(text)?.[1] ?? 0);
  }

  it("is played over both", async () => {
    await submit("both");
    await balances("both");
    const calls = await Promise.all(["gateway", "gateway-1"].map(answered));
    expect(Math.min(...calls) / Math.max(...calls)).toBeGreaterThan(0.5);
  }, 240_000);

  it.each(["gateway", "gateway-1"])(
    "goes on when %s is killed",
    async (gateway) => {
      const name = `kill-${gateway}`;
      const { pid = 0, crashes } = info(gateway);
      await submit(name);
      await atStep(name, 2);
      process.kill(pid, "SIGKILL");
      await waitFor(() => info(gateway).crashes > crashes, { timeoutMs: 30_000 });
      await balances(name);
    },
    240_000,
  );

  it("goes on while one hangs, which is told of the newest version when it is back", async () => {
    await submit("hang");
    await atStep("hang", 1);
    const { pid = 0 } = info("gateway-1");
    process.kill(pid, "SIGSTOP");
    await atStep("hang", 4);
    process.kill(pid, "SIGCONT");
    await balances("hang");
  }, 240_000);
});
