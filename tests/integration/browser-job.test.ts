// SPDX-License-Identifier: Apache-2.0
// Pages of MiniWoB++ through all services, by a policy that reads them, while the env-runner with its browsers is killed.
import { mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { canHaveBrowsers, miniwobFolder } from "@whetstone/browser/test-support";
import { JobPhase, JobService } from "@whetstone/proto/jobs/v1/jobs";
import { createClient } from "@whetstone/rpc";
import { waitFor } from "@whetstone/testkit";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { browserJob } from "../support/browser-job.ts";
import { type LocalRuntime, startLocalRuntime } from "../support/local-runtime.ts";

const ROOT = join(import.meta.dirname, "../..");
const STEPS = 3;
const GROUPS = 4;
const GROUP = 4;
describe.runIf(canHaveBrowsers)("a job with browsers", () => {
  let runtime: LocalRuntime;
  let folder: string;
  beforeAll(async () => {
    // Inside the repository, so that the SDK is found as it is in a project that has it installed.
    mkdirSync(join(ROOT, ".whetstone"), { recursive: true });
    folder = mkdtempSync(join(ROOT, ".whetstone/browser-job-"));
    runtime = await startLocalRuntime();
    symlinkSync(miniwobFolder(), join(runtime.data, "miniwob"));
  }, 120_000);
  afterAll(async () => {
    await runtime[Symbol.asyncDispose]();
    rmSync(folder, { recursive: true, force: true });
  });

  it("is paid for what its pages say and keeps their pictures, loses nothing when the env-runner is killed, and its books balance", async () => {
    const name = "browser-job";
    const document = browserJob(folder, { name, model: runtime.model, steps: STEPS, groups: GROUPS });
    const args = { maxSteps: 3, screenshot: true, marks: true };
    const environment = { ...document.environment, args };
    const file = join(folder, "job.json");
    writeFileSync(file, JSON.stringify({ ...document, agent: { kind: "web", args: { images: true } }, environment }));
    const shown = runtime.whet("train", file, "--no-watch");
    expect([shown.status, shown.output]).toEqual([2, expect.stringContaining("agent.args.images")]);
    writeFileSync(file, JSON.stringify({ ...document, environment }));
    const submitted = runtime.whet("train", file, "--no-watch");
    expect(submitted.status, submitted.output).toBe(0);
    await using jobs = createClient(JobService, runtime.address("controller"));
    const status = async () => (await jobs.getJob({ name }).catch(() => undefined))?.job?.status;
    await waitFor(async () => ((await status())?.step ?? 0) > 0, { timeoutMs: 300_000 });
    process.kill(runtime.services().find((service) => service.name === "env-runner")?.pid ?? 0, "SIGKILL");
    await waitFor(async () => (await status())?.phase === JobPhase.SUCCEEDED, { timeoutMs: 600_000 });
    const rates: number[] = [];
    for await (const { event } of jobs.streamMetrics({ name, follow: false }))
      if (event.case === "step") rates.push(event.value.metrics["rollout/success"] ?? Number.NaN);
    const sound = { lost: 0, duplicated: 0, stale: 0, unlabelled: 0, inFlight: 0 };
    expect(runtime.whet("jobs", "audit", name).json).toMatchObject({ ...sound, trained: STEPS * GROUPS * GROUP });
    expect(rates).toEqual([1, 1, 1]);
    const page = join(folder, "episode.html");
    const { json } = runtime.whet("episodes", "show", `${name}/g0/s0`, "--html", page);
    const digest = expect.stringMatching(/^[0-9a-f]{64}$/u) as string;
    expect(json).toMatchObject({ episode: { images: [{ mediaType: "image/png", digest }] } });
    expect(readFileSync(page, "utf8")).toContain('<img src="data:image/png;base64,');
  }, 900_000);
});
