// SPDX-License-Identifier: Apache-2.0
import { create } from "@bufbuild/protobuf";
import { DESIRED } from "@whetstone/messaging/jobs";
import { type Job, JobPhase, JobSchema, JobService } from "@whetstone/proto/jobs/v1/jobs";
import { createClient, implement, startServer } from "@whetstone/rpc";
import { silentLogger } from "@whetstone/telemetry";
import { expect, it } from "vitest";
import { followJob } from "./job-watch.ts";

const jobIn = (phase: JobPhase): Job =>
  create(JobSchema, { spec: { name: "j" }, desiredState: DESIRED.run(), status: { phase } });

function untilAborted(signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => signal.addEventListener("abort", () => resolve(), { once: true }));
}

it("ends with a job whose end its stream never told", async () => {
  const service = implement(JobService, {
    getJob: () => Promise.resolve({ job: jobIn(JobPhase.SUCCEEDED) }),
    async *watchJob(_, { signal }) {
      yield { job: jobIn(JobPhase.RUNNING) };
      await untilAborted(signal);
    },
    async *streamMetrics(_, { signal }) {
      await untilAborted(signal);
    },
  });
  await using server = await startServer({ host: "127.0.0.1", port: 0, logger: silentLogger, services: [service] });
  await using client = createClient(JobService, server.address);
  const phases: (JobPhase | undefined)[] = [];
  const none = (): void => undefined;
  const events = {
    lookEveryMs: 200,
    job: ({ status }: Job) => phases.push(status?.phase),
    step: none,
    validation: none,
    lost: none,
  };
  const job = await followJob(client, "j", events, AbortSignal.timeout(20_000));
  expect(job.status?.phase).toBe(JobPhase.SUCCEEDED);
  expect(phases).toEqual([JobPhase.RUNNING, JobPhase.SUCCEEDED]);
});
