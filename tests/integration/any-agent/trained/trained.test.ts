// SPDX-License-Identifier: Apache-2.0
// Unmodified agents of the usual libraries are played and trained through all services, streamed and whole.
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { type LocalRuntime, startLocalRuntime } from "../../../support/local-runtime.ts";

const LIBRARIES = ["openai", "anthropic", "openai-agents", "langgraph", "mastra"];
const SOUND = { lost: 0, duplicated: 0, stale: 0, unlabelled: 0, inFlight: 0, trained: 16 };

describe("two steps of GRPO", () => {
  let runtime: LocalRuntime;
  beforeAll(async () => {
    runtime = await startLocalRuntime();
  }, 120_000);
  afterAll(() => runtime[Symbol.asyncDispose](), 30_000);

  it.each(LIBRARIES.flatMap((library) => [false, true].map((streamed) => [library, streamed] as const)))(
    "of an agent of %s, streamed: %s, train every id once, under its label",
    (library, streamed) => {
      const name = `${library}-${streamed ? "streamed" : "whole"}`;
      const settings = ["--set", `name=${name}`, "--set", `agent.args.streamed=${streamed}`];
      const { status, output } = runtime.whet("train", join(import.meta.dirname, `${library}.ts`), ...settings);
      expect(status, output).toBe(0);
      const job = runtime.whet("jobs", "get", name).json as { status: object };
      expect(job.status).toMatchObject({ phase: "JOB_PHASE_SUCCEEDED", step: 2 });
      expect(runtime.whet("jobs", "audit", name).json).toMatchObject(SOUND);
    },
    180_000,
  );
});
