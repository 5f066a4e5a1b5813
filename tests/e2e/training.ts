// SPDX-License-Identifier: Apache-2.0
// Jobs submitted by gRPC to the controller in the cluster, and their books.
import { mkdirSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { fromJson, type JsonObject } from "@bufbuild/protobuf";
import { writeDemonstrations } from "../../examples/frozenlake/src/demonstrations.ts";
import { JobPhase, JobService, JobSpecSchema, type StepRecord } from "@whetstone/proto/jobs/v1/jobs";
import { createClient } from "@whetstone/rpc";

import { runWhet, smallJob } from "../support/local-runtime.ts";
import { command, kubectl, portForward } from "./cluster.ts";
import { NAMESPACE, RELEASE } from "./release.ts";

const CONTROLLER = `deployment/${RELEASE}-controller`;
const DEMONSTRATIONS = "/data/e2e-demonstrations.jsonl";
const STEPS = 3;
export const MODEL = "/data/models/policy";

/** Submits a job and follows it to its end; `onStep` is told of each step as it is reported. */
export async function runJob(spec: JsonObject, onStep: (step: number) => void = () => {}): Promise<StepRecord[]> {
  await using forward = await portForward(NAMESPACE, `${RELEASE}-controller`, 9083);
  await using jobs = createClient(JobService, forward.address);
  const name = spec["name"] as string;
  await jobs.submitJob({ spec: fromJson(JobSpecSchema, spec) }, { deadlineMs: 60_000 });
  const steps: StepRecord[] = [];
  for await (const { event } of jobs.streamMetrics({ name, follow: true })) {
    if (event.case !== "step") continue;
    steps.push(event.value);
    onStep(steps.length);
  }
  const { job } = await jobs.getJob({ name });
  const phase = job?.status?.phase ?? JobPhase.UNSPECIFIED;
  if (phase !== JobPhase.SUCCEEDED) throw new Error(`${name} ended as ${JobPhase[phase]}: ${job?.status?.message}`);
  return steps;
}

/** GRPO for three steps from random weights: every service takes part, nothing is learned yet. */
export function grpoJob(name: string): JsonObject {
  return smallJob(name, MODEL, { steps: STEPS });
}

/** SFT for a few steps: its loss must fall, so weights did reach trainer and engine. */
export function sftJob(name: string): JsonObject {
  const optimizer = { learningRate: 0.001, warmupSteps: 1 };
  return {
    ...smallJob(name, MODEL),
    train: { jsonl: DEMONSTRATIONS },
    algorithm: { sft: { optimizer, batching: { miniBatches: 4, epochs: 2 } } },
    loop: { steps: STEPS, batchGroups: 64 },
  };
}

/** Puts demonstrations on the cluster's volume. */
export function bringDemonstrations(): void {
  const folder = mkdtempSync(join(tmpdir(), "whetstone-e2e-"));
  const file = join(folder, "demonstrations.jsonl");
  writeDemonstrations(file, 1, 192);
  const into = ["-n", NAMESPACE, "exec", "-i", CONTROLLER, "-c", "controller", "--", "tee", DEMONSTRATIONS];
  command("kubectl", into, readFileSync(file, "utf8"));
  rmSync(folder, { recursive: true });
}

/** `whet jobs audit`, with NATS through a port-forward and the checkpoints' books copied from the volume. */
export async function audit(name: string): Promise<Record<string, number>> {
  const data = mkdtempSync(join(tmpdir(), "whetstone-e2e-"));
  try {
    copyBooks(data);
    await using forward = await portForward(NAMESPACE, `${RELEASE}-nats`, 4222);
    process.env["WHETSTONE_NATS_URL"] = `nats://${forward.address}`;
    const { status, json, output } = runWhet("jobs", "audit", name, "--data", data, "--json");
    if (status !== 0) throw new Error(`whet jobs audit ${name} ended with ${status}: ${output}`);
    return json as Record<string, number>;
  } finally {
    delete process.env["WHETSTONE_NATS_URL"];
    rmSync(data, { recursive: true, force: true });
  }
}

function copyBooks(data: string): void {
  const find = "cd /data && find runs -path '*/checkpoints/*/state.json'";
  const exec = ["-n", NAMESPACE, "exec", CONTROLLER, "-c", "controller", "--"];
  for (const path of kubectl(...exec, "sh", "-c", find)
    .trim()
    .split("\n")) {
    mkdirSync(join(data, path, ".."), { recursive: true });
    command("sh", ["-c", `kubectl "$@" >"$0"`, join(data, path), ...exec, "cat", `/data/${path}`]);
  }
}
