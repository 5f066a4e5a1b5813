// SPDX-License-Identifier: Apache-2.0
// An unmodified agent of the AI SDK (its default API, responses) is played and trained through all services.
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { type LocalRuntime, startLocalRuntime } from "../../support/local-runtime.ts";

describe("the AI SDK's tool loop", () => {
  let runtime: LocalRuntime;
  beforeAll(async () => {
    runtime = await startLocalRuntime();
  }, 120_000);
  afterAll(() => runtime[Symbol.asyncDispose](), 30_000);

  it("trains two steps of GRPO, and the audit finds every id trained once, under its label", () => {
    const { status, output } = runtime.whet("train", join(import.meta.dirname, "sdk-agent.ts"), "--set", "name=ai-sdk");
    expect(status, output).toBe(0);
    const job = runtime.whet("jobs", "get", "ai-sdk").json as { status: object };
    expect(job.status).toMatchObject({ phase: "JOB_PHASE_SUCCEEDED", step: 2 });
    const sound = { lost: 0, duplicated: 0, stale: 0, unlabelled: 0, inFlight: 0, trained: 16 };
    expect(runtime.whet("jobs", "audit", "ai-sdk").json).toMatchObject(sound);
  }, 180_000);
});
