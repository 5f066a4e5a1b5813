// SPDX-License-Identifier: Apache-2.0
// The images without a cluster: FrozenLake trains while containers are killed and cut off their network; the books balance.
import { fromJson } from "@bufbuild/protobuf";
import { JobPhase, JobService, JobSpecSchema } from "@whetstone/proto/jobs/v1/jobs";
import { createClient } from "@whetstone/rpc";
import { waitFor } from "@whetstone/testkit";
import { afterAll, beforeAll, describe, expect, it } from "vitest";

import { type Installation, MODEL_PATH, NAMES, startInstallation } from "../support/containers.ts";
import { smallJob } from "../support/local-runtime.ts";

const STEPS = 6;
const SOUND = { lost: 0n, duplicated: 0n, stale: 0n, unlabelled: 0n, inFlight: 0n };
const CUT_MS = 8_000;

describe("containers without a cluster", () => {
  let installation: Installation;

  beforeAll(async () => {
    installation = await startInstallation();
  }, 300_000);
  afterAll(async () => installation?.[Symbol.asyncDispose](), 120_000);

  it("train to the end", async () => {
    await train("plain", async () => {});
  });

  it.each(NAMES)("%s killed: training ends, nothing is lost, duplicated, stale or unlabelled", async (name) => {
    await train(`kill-${name}`, () => installation.kill(name));
  });

  it.each(NAMES.filter((name) => name !== "controller"))(
    "%s without its network for a while: training ends, nothing is lost, duplicated, stale or unlabelled",
    async (name) => {
      await train(`cut-${name}`, () => installation.cut(name, CUT_MS));
    },
  );

  async function train(name: string, fault: () => Promise<void>): Promise<void> {
    const ask = async <T>(work: (jobs: ReturnType<typeof client>) => Promise<T>): Promise<T> => {
      await using jobs = client(await installation.endpoint());
      return await work(jobs);
    };
    const spec = fromJson(JobSpecSchema, smallJob(name, MODEL_PATH, { steps: STEPS, lag: 1 }));
    await ask((jobs) => jobs.submitJob({ spec }, { deadlineMs: 60_000 }));
    const status = () =>
      ask((jobs) => jobs.getJob({ name })).then(
        ({ job }) => job?.status,
        () => undefined,
      );
    await waitFor(async () => ((await status())?.step ?? 0) >= 2, { timeoutMs: 90_000 });
    await fault();
    await waitFor(
      async () => {
        const now = await status();
        if (now?.phase === JobPhase.FAILED) throw new Error(`${name} failed: ${now.message}`);
        return now?.phase === JobPhase.SUCCEEDED;
      },
      { timeoutMs: 180_000 },
    );
    expect(await ask((jobs) => jobs.auditJob({ name }))).toMatchObject({ ...SOUND, violations: [] });
  }
});

function client(address: string) {
  return createClient(JobService, address, { deadlineMs: 10_000 });
}
