// SPDX-License-Identifier: Apache-2.0
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pathToFileURL } from "node:url";

import { JobPhase } from "@whetstone/proto/jobs/v1/jobs";
import { defineJob, FrozenLakeEnv, grpo } from "@whetstone/sdk";
import { afterAll, afterEach, beforeEach, describe, expect, it } from "vitest";

import type { FakeController } from "../test-support/fake-controller.ts";
import { startFakeController } from "../test-support/fake-controller.ts";
import { trainJob } from "./trainer.ts";

const folder = mkdtempSync(join(tmpdir(), "whet-trainer-"));
const module = join(folder, "my job.ts");
writeFileSync(module, 'export { FrozenLakeEnv } from "@whetstone/sdk";\n');
const definition = defineJob({
  model: { path: "/models/remote" },
  agent: { kind: "frozenlake" },
  environment: FrozenLakeEnv,
  train: { seeds: { first: 1, count: 10 } },
  algorithm: grpo({ groupSize: 4 }),
  loop: { steps: 2, batchGroups: 2 },
});
let controller: FakeController;

beforeEach(async () => {
  controller = await startFakeController();
  process.env["WHETSTONE_ENDPOINT"] = controller.address;
});
afterEach(async () => {
  delete process.env["WHETSTONE_ENDPOINT"];
  await controller[Symbol.asyncDispose]();
});
afterAll(() => rmSync(folder, { recursive: true }));

const data = join(folder, "data");
const train = (more: object = {}) => trainJob({ module: pathToFileURL(module).href, definition, data, ...more });

describe("trainJob", () => {
  it("submits the job with its module, tells each step, and answers what came of it", async () => {
    const [seen, lines]: [number[], string[]] = [[], []];
    const onStep = ({ step }: { step: number }): void => void seen.push(step);
    const result = await train({ onStep, onLine: (line: string) => lines.push(line) });
    expect(result).toMatchObject({ modelPath: "/weights", validations: [] });
    expect(result.steps).toEqual([
      expect.objectContaining({ step: 0, episodes: 8, metrics: { "reward/mean": 0, loss: 0.5 } }),
      expect.objectContaining({ step: 1, episodes: 8, metrics: { "reward/mean": 0.1, loss: 0.5 } }),
    ]);
    expect(seen).toEqual([0, 1]);
    expect(lines.at(-1)).toBe(`${result.job} succeeded`);
    const spec = controller.jobs.get(result.job)?.spec;
    expect(spec?.module?.digest).toMatch(/^[0-9a-f]{64}$/);
    expect([spec?.environment?.kind, spec?.name]).toEqual([
      "FrozenLakeEnv",
      expect.stringMatching(/^my-job-[0-9a-f]{8}$/),
    ]);
  });

  it("answers the same to a caller who listens to nothing", async () => {
    const { steps } = await train();
    expect(steps.map(({ step }) => step)).toEqual([0, 1]);
  });

  it("a job that fails or is cancelled rejects, and says why", async () => {
    controller.end = JobPhase.FAILED;
    await expect(train()).rejects.toMatchObject({
      code: "FAILED_PRECONDITION",
      message: expect.stringContaining("failed: as scripted") as string,
    });
    controller.jobs.clear();
    controller.end = JobPhase.CANCELLED;
    await expect(train()).rejects.toMatchObject({ code: "CANCELLED" });
  });

  it("an abort suspends the job; trained again it goes on", async () => {
    controller.end = JobPhase.RUNNING;
    const abort = new AbortController();
    const training = train({ signal: abort.signal, onStep: () => abort.abort() });
    await expect(training).rejects.toMatchObject({ name: "AbortError" });
    expect(controller.calls).toEqual(["submit", "suspend"]);
    controller.end = JobPhase.SUCCEEDED;
    await train();
    expect(controller.calls).toEqual(["submit", "suspend", "submit", "resume"]);
  });

  it("what the controller refuses rejects with its violations", async () => {
    const sft = defineJob({ loop: { steps: 0 }, rollout: { kind: "command" }, model: { path: "nowhere" } });
    await expect(train({ definition: sft })).rejects.toMatchObject({
      violations: [{ path: "model.path", reason: `${join(folder, "nowhere")} does not exist` }],
    });
  });
});
