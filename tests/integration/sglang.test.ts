// SPDX-License-Identifier: Apache-2.0
// The proxy with SGLang behind it, which here is a server that is written from SGLang's schemas: `whet engines check`, and a job
// through all services.
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fromJson } from "@bufbuild/protobuf";
import { FleetService } from "@whetstone/proto/inference/v1/inference";
import { type Job, JobPhase, JobService, JobSpecSchema } from "@whetstone/proto/jobs/v1/jobs";
import { createClient } from "@whetstone/rpc";
import { silentLogger } from "@whetstone/telemetry";
import { waitFor } from "@whetstone/testkit";
import { afterAll, beforeAll, expect, it } from "vitest";
import { runCommand } from "../../services/cli/src/run-command.ts";
import { fakeTerminal } from "../../services/cli/test-support/fake-terminal.ts";
import { type EngineProxy, startProxy } from "../../services/inference-gateway/src/proxy/app.ts";
import { ProxyConfigSchema } from "../../services/inference-gateway/src/proxy/config.ts";
import { startRealEngine } from "../../services/inference-gateway/test/real-engine.ts";
import { type SglangOptions, startSglangServer } from "../../services/inference-gateway/test/sglang-server.ts";
import { openLocalRuntime } from "../support/local-runtime.ts";
import { makeTwoModels } from "../support/two-models.ts";
import { changingJob } from "../support/watched-jobs.ts";

const STEPS = 5;

const stack = new AsyncDisposableStack();
let folder: string;
let models: { a: string; b: string };
let engine: string;

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), "whetstone-sglang-"));
  stack.defer(() => rmSync(folder, { recursive: true, force: true }));
  models = await makeTwoModels(join(folder, "models"));
  engine = stack.use(await startRealEngine(models.a, "unused")).url;
}, 120_000);
afterAll(() => stack.disposeAsync());

async function startBehind(options: SglangOptions): Promise<EngineProxy> {
  const sglang = stack.use(await startSglangServer(engine, models.a, options));
  const config = ProxyConfigSchema.parse({ engineUrl: sglang.url, dataPort: 0, controlPort: 0 });
  return await startProxy(config, { logger: silentLogger });
}

interface Checked {
  readonly check: string;
  readonly result: string;
  readonly detail: string;
}

async function check(url: string): Promise<readonly Checked[]> {
  const terminal = fakeTerminal();
  const signal = new AbortController().signal;
  const flags = ["--json", "--model", models.a, "--other-model", models.b];
  await runCommand(["engines", "check", url, ...flags], { terminal, environment: {}, signal, force: signal });
  const { checks } = (terminal.documents[0] ?? {}) as { checks?: readonly Checked[] };
  if (checks === undefined) throw new Error(JSON.stringify(terminal));
  return checks;
}

it.each([
  ["events with all tokens so far", {}],
  ["--incremental-streaming-output", { isIncremental: true }],
])(
  "is an engine of the protocol, with %s; what it lacks is named",
  async (_name, options) => {
    await using behind = await startBehind(options);
    const checks = await check(behind.controlUrl);
    expect(checks.filter(({ result }) => result === "failed")).toEqual([]);
    expect(checks.filter(({ result }) => result === "skipped")).toEqual([
      { check: "pause keep", result: "skipped", detail: expect.stringContaining("mode=keep: SGLang does not say") },
      { check: "T25 spans", result: "skipped", detail: expect.stringContaining("mode=keep: SGLang does not say") },
      { check: "T35 adapters", result: "skipped", detail: "it has no /v1/load_lora_adapter" },
      { check: "T37 sleep", result: "skipped", detail: "it has no /is_sleeping" },
    ]);
  },
  300_000,
);

it("serves a job by itself: every token is accounted for", async () => {
  await using behind = await startBehind({});
  await using runtime = await openLocalRuntime({ data: join(folder, "job"), model: models.a });
  await using fleet = createClient(FleetService, runtime.address("gateway"));
  await using jobs = createClient(JobService, runtime.address("controller"));
  await fleet.removeEngine({ id: "e0" });
  await fleet.registerEngine({ id: "sglang", url: behind.dataUrl, controlUrl: behind.controlUrl });
  const name = "sglang";
  const job = changingJob(name, models.a, STEPS, { folder: {} });
  const truncated = fromJson(JobSpecSchema, { ...job, sampling: { topP: 0.9, topK: 8 } });
  await expect(jobs.submitJob({ spec: truncated })).rejects.toThrow(
    /^[^;]*sampling\.topP: engine sglang does not[^;]*$/,
  );
  await jobs.submitJob({ spec: fromJson(JobSpecSchema, job) });
  const get = async (): Promise<Job["status"]> => (await jobs.getJob({ name })).job?.status;
  const ended = [JobPhase.SUCCEEDED, JobPhase.FAILED];
  await waitFor(async () => ended.includes((await get())?.phase ?? 0), { timeoutMs: 240_000 });
  expect(await get()).toMatchObject({ phase: JobPhase.SUCCEEDED, policyVersion: BigInt(STEPS) });
  const nothing = { lost: 0n, duplicated: 0n, stale: 0n, unlabelled: 0n };
  const episodes = BigInt(32 * STEPS);
  expect(await jobs.auditJob({ name })).toMatchObject({ dispatched: episodes, trained: episodes, ...nothing });
  const { engines } = await fleet.listEngines({});
  expect(engines.map(({ id, reason }) => [id, reason])).toEqual([["sglang", ""]]);
  // The trainer computes the same again, with the weights that the labels name.
  const differences: number[] = [];
  for await (const { event } of jobs.streamMetrics({ name }))
    if (event.case === "step") differences.push(event.value.metrics["logprob_diff/max"] ?? Infinity);
  expect(differences).toHaveLength(STEPS);
  expect(Math.max(...differences)).toBeLessThan(1e-4);
}, 400_000);
