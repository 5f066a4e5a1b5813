// SPDX-License-Identifier: Apache-2.0
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { create } from "@bufbuild/protobuf";
import { JobPhase, JobSchema, ValidationResultSchema } from "@whetstone/proto/jobs/v1/jobs";
import { afterEach, beforeEach, expect, it, vi } from "vitest";

import type { FakeController } from "../../test-support/fake-controller.ts";
import { startFakeController } from "../../test-support/fake-controller.ts";
import type { FakeTerminal } from "../../test-support/fake-terminal.ts";
import { fakeTerminal } from "../../test-support/fake-terminal.ts";
import { pointOf } from "../metrics/event.ts";
import { recordsOf } from "../metrics/record-frames.ts";
import { runCommand } from "../run-command.ts";

vi.setConfig({ testTimeout: 60_000 }); // Each command is loaded when it first runs.

let controller: FakeController;
let terminal: FakeTerminal;
let logs: string;
const interrupt = new AbortController();

beforeEach(async () => {
  controller = await startFakeController();
  controller.jobs.set("lake", create(JobSchema, { spec: { name: "lake" }, uid: "0123456789", status: {} }));
  controller.validations = [create(ValidationResultSchema, { step: 1, variant: "greedy", episodes: 8, success: 0.5 })];
  terminal = fakeTerminal();
  logs = mkdtempSync(join(tmpdir(), "whet-metrics-"));
});
afterEach(async () => {
  await controller[Symbol.asyncDispose]();
  rmSync(logs, { recursive: true });
});

function whet(...argv: string[]): Promise<number> {
  const environment = { WHETSTONE_ENDPOINT: controller.address, WHETSTONE_DATA: join(logs, "data") };
  return runCommand(argv, { terminal, environment, signal: interrupt.signal, force: interrupt.signal });
}

function written(): string[] {
  const folder = join(logs, "lake-01234567");
  const records = readdirSync(folder).flatMap((file) => [...recordsOf(readFileSync(join(folder, file)))]);
  return records.map(pointOf).flatMap((point) => (point ? [`${point.step} ${point.name}`] : []));
}

const STEPS = ["0 policy_version", "1 policy_version"];
const ALL = [...STEPS, "1 validation/greedy/episodes"];

it("prints the numbers of every step, one document a line", async () => {
  expect(await whet("jobs", "metrics", "lake")).toBe(0);
  expect(terminal.documents).toMatchObject([
    { step: 0, "reward/mean": 0, loss: 0.5 },
    { step: 1, "reward/mean": 0.1, loss: 0.5 },
  ]);
});

it("follows a job to its end, and tells of a validation that only the job's record tells of", async () => {
  expect(await whet("jobs", "metrics", "lake", "--follow")).toBe(0);
  expect(terminal.documents).toMatchObject([{ step: 0 }, { step: 1 }, { "validation/greedy/success": 0.5 }]);
});

it.each([
  ["jobs metrics", ["jobs", "metrics", "lake", "--follow"]],
  ["jobs watch", ["jobs", "watch", "lake"]],
])("%s --tensorboard writes event files, and nothing twice", async (_, argv) => {
  expect(await whet(...argv, "--tensorboard", logs)).toBe(0);
  expect(written()).toEqual(ALL);
  controller.steps = 3;
  expect(await whet(...argv, "--tensorboard", logs)).toBe(0);
  expect(written()).toEqual([...ALL, "2 policy_version"]);
});

it("says how many were new, and where", async () => {
  await whet("jobs", "metrics", "lake", "--tensorboard", logs);
  await whet("jobs", "metrics", "lake", "--tensorboard", logs, "--json");
  const path = join(logs, "lake-01234567");
  expect(terminal.out).toEqual([`2 steps and validations written to ${path}`]);
  expect(terminal.documents).toEqual([{ job: "lake", path, written: 0 }]);
});

it("a job is watched to its end though its event files cannot be written", async () => {
  writeFileSync(join(logs, "lake-01234567"), "");
  expect(await whet("jobs", "watch", "lake", "--tensorboard", logs)).toBe(0);
  expect(terminal.err).toEqual([expect.stringMatching(/cannot be written .*; `whet jobs metrics lake --tensorboard/)]);
  expect(terminal.out.join("\n")).toContain("step 2/");
  expect(await whet("jobs", "metrics", "lake", "--tensorboard", logs)).toBe(1);
});

it("a folder that cannot be written is bad input, and no job begins", async () => {
  const file = join(logs, "file");
  const job = { name: "other", model: { path: "/remote" }, loop: { steps: 1 } };
  writeFileSync(file, JSON.stringify(job));
  for (const argv of [
    ["jobs", "metrics", "lake"],
    ["jobs", "watch", "lake"],
    ["train", file],
  ])
    expect(await whet(...argv, "--tensorboard", file)).toBe(2);
  expect(terminal.err).toEqual(Array(3).fill(`--tensorboard: ${file} cannot be written (ENOTDIR)`));
  expect(await whet("train", file, "--no-watch", "--tensorboard", logs)).toBe(2);
  expect(controller.calls).toEqual([]);
});

it("train writes them while it watches", async () => {
  const file = join(logs, "job.json");
  writeFileSync(
    file,
    JSON.stringify({ name: "other", model: { path: "/remote" }, loop: { steps: 2, batchGroups: 2 } }),
  );
  controller.end = JobPhase.SUCCEEDED;
  expect(await whet("train", file, "--tensorboard", join(logs, "new"))).toBe(0);
  expect(readdirSync(join(logs, "new"))).toEqual(["other-u"]);
});
