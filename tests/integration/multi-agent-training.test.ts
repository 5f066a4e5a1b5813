// SPDX-License-Identifier: Apache-2.0
// The examples with several roles train through the real services, with a tiny model.
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { type LocalRuntime, startLocalRuntime } from "../support/local-runtime.ts";

const EXAMPLES = join(import.meta.dirname, "../../examples");

describe("examples of several roles", () => {
  let runtime: LocalRuntime;
  beforeAll(async () => {
    runtime = await startLocalRuntime();
  }, 120_000);
  afterAll(() => runtime[Symbol.asyncDispose](), 30_000);

  it.each(["solver-judge", "generator-critic", "self-play"])(
    "%s trains two steps, and every episode is accounted for",
    (name) => {
      const file = join(EXAMPLES, name, "agent.ts");
      const settings = { name, "loop.steps": 2, "loop.batchGroups": 2, "algorithm.policyGradient.groupSize": 4 };
      const flags = Object.entries(settings).flatMap(([path, value]) => ["--set", `${path}=${value}`]);
      const { status, output } = runtime.whet("train", file, ...flags);
      expect(status, output).toBe(0);
      const job = runtime.whet("jobs", "get", name).json as { status: object };
      expect(job.status).toMatchObject({ phase: "JOB_PHASE_SUCCEEDED", step: 2 });
      const sound = { lost: 0, duplicated: 0, stale: 0, unlabelled: 0, inFlight: 0, trained: 16 };
      expect(runtime.whet("jobs", "audit", name).json).toMatchObject(sound);
    },
    180_000,
  );
});
