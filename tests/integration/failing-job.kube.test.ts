// SPDX-License-Identifier: Apache-2.0
// Jobs that fail and jobs that stand still, as their objects tell it: a controller on the cluster of KUBECONFIG, the real
// services beside it on this machine.
import { rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { JsonObject } from "@bufbuild/protobuf";
import type { Stored } from "@whetstone/kube";
import { waitFor } from "@whetstone/testkit";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import {
  TRAINING_JOBS,
  type TrainingJob,
  type TrainingJobSpec,
} from "../../services/controller/src/operator/training-job/schema.ts";
import { KubeJobs } from "../support/kube-jobs.ts";
import { smallJob } from "../support/local-runtime.ts";

let jobs: KubeJobs;

beforeAll(async () => {
  jobs = await KubeJobs.start("failing");
}, 300_000);
afterAll(() => jobs[Symbol.asyncDispose](), 120_000);

const LONG = { timeoutMs: 60_000, intervalMs: 100 };

/** Its tasks are in a file that can be taken away. */
function jobOn(tasks: string, steps: number): JsonObject {
  const { name: _, ...job } = smallJob("any", jobs.runtime.model, { steps });
  return { ...job, train: { jsonl: tasks } };
}

function writeTasks(path: string): void {
  const lines = Array.from({ length: 64 }, (_, seed) => JSON.stringify({ id: `t${seed}`, payload: { seed } }));
  writeFileSync(path, `${lines.join("\n")}\n`);
}

/** Taken in while its tasks are there, and started when they are not. */
async function startWithoutTasks(name: string, spec: Partial<TrainingJobSpec>): Promise<string> {
  const tasks = join(jobs.folder, `${name}.jsonl`);
  writeTasks(tasks);
  await jobs.cluster.kube.create(TRAINING_JOBS, {
    metadata: { name },
    spec: { suspend: true, ...spec, job: jobOn(tasks, 2) },
  });
  await isIn(name, "Suspended");
  rmSync(tasks);
  await jobs.cluster.kube.patch(TRAINING_JOBS, name, { spec: { suspend: false } });
  return tasks;
}

const objectOf = (name: string) => jobs.cluster.kube.get(TRAINING_JOBS, name);
const isIn = (name: string, wanted: string): Promise<unknown> =>
  waitFor(async () => (await objectOf(name))?.status?.state === wanted, LONG);
const has = (name: string, type: string, wanted: string): Promise<unknown> =>
  waitFor(async () => condition(await objectOf(name), type) === wanted, LONG);

function condition(object: Stored<TrainingJob> | undefined, type: string): string {
  const found = object?.status?.conditions?.find((one) => one.type === type);
  return `${found?.status}/${found?.reason}`;
}

describe("failurePolicy", () => {
  it("starts a failed job again, says so, and lets it end well when the cause is gone", async () => {
    const tasks = await startWithoutTasks("again", { failurePolicy: { maxRestarts: 5 } });
    // It runs again after a second, and its message is another one then: one look has to see both.
    let failing: Stored<TrainingJob> | undefined;
    await waitFor(async () => condition((failing = await objectOf("again")), "Restarting") === "True/Restarting", LONG);
    expect(failing?.status?.restarts).toBeGreaterThanOrEqual(1);
    expect(failing?.status?.message).toContain("ENOENT");
    writeTasks(tasks);
    await isIn("again", "Succeeded");
    const { status } = (await objectOf("again")) ?? {};
    expect(status).toMatchObject({ progress: "2/2" });
    expect(status?.restarts).toBeLessThanOrEqual(5);
    expect(condition(await objectOf("again"), "Restarting")).toBe("False/Ended");
  });

  it("gives up after the restarts that it has, and not before", async () => {
    await startWithoutTasks("twice", { failurePolicy: { maxRestarts: 1 } });
    await isIn("twice", "Failed");
    const twice = await objectOf("twice");
    expect([twice?.status?.restarts, condition(twice, "Failed")]).toEqual([1, "True/JobFailed"]);
    expect(twice?.status?.conditions?.find(({ type }) => type === "Failed")?.message).toContain("NotStarted");
    await startWithoutTasks("never", {});
    await isIn("never", "Failed");
    expect((await objectOf("never"))?.status?.restarts).toBe(0);
  });
});

describe("noProgressSeconds", () => {
  it("says that a job stands still while nobody plays, and takes it back when it goes on", async () => {
    const orchestrator = jobs.runtime.services().find(({ name }) => name.includes("orchestrator"))?.pid ?? 0;
    const tasks = join(jobs.folder, "still.jsonl");
    writeTasks(tasks);
    const deadlines = { noProgressSeconds: 4 };
    await jobs.cluster.kube.create(TRAINING_JOBS, {
      metadata: { name: "still" },
      spec: { deadlines, job: jobOn(tasks, 100_000) },
    });
    await waitFor(async () => ((await objectOf("still"))?.status?.step ?? 0) >= 2, LONG);
    await has("still", "Progressing", "True/Progressing");
    process.kill(orchestrator, "SIGSTOP");
    try {
      await has("still", "Progressing", "False/NoProgress");
      const { status } = (await objectOf("still")) ?? {};
      expect(status?.state).toBe("Running"); // The job itself goes on, as the documentation says.
      expect(status?.conditions?.find(({ type }) => type === "Progressing")?.message).toContain("for 4 s");
    } finally {
      process.kill(orchestrator, "SIGCONT");
    }
    const before = (await objectOf("still"))?.status?.step ?? 0;
    await has("still", "Progressing", "True/Progressing");
    await waitFor(async () => ((await objectOf("still"))?.status?.step ?? 0) > before, LONG);
  }, 180_000);
});
