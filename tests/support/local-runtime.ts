// SPDX-License-Identifier: Apache-2.0
// A real local runtime for tests: `whet up` as a child, in a data folder of its own.
import { type ChildProcess, spawn } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import type { JsonObject } from "@bufbuild/protobuf";

import { tinyModel } from "./tiny-model.ts";
import { runWhet, WHET } from "./whet.ts";

/** Longer on a machine that many share. */
const READY_MS = Number(process.env["WHETSTONE_TEST_READY_MS"] ?? 90_000);

export interface ServiceInfo {
  readonly name: string;
  readonly pid?: number;
  readonly phase: string;
  readonly ports: Record<string, number>;
  readonly crashes: number;
}

interface RuntimeFile {
  readonly phase: string;
  readonly pid: number;
  readonly services: ServiceInfo[];
}

export interface LocalRuntime extends AsyncDisposable {
  readonly data: string;
  readonly model: string;
  readonly pid: number;
  services(): ServiceInfo[];
  address(service: string, purpose?: string): string;
  /** Runs `whet … --data <data> --json`. */
  whet(...args: string[]): { status: number; json: unknown; output: string };
  stop(signal?: NodeJS.Signals): Promise<void>;
}

export async function startLocalRuntime(...flags: string[]): Promise<LocalRuntime> {
  const data = mkdtempSync(join(tmpdir(), "whetstone-test-"));
  return openLocalRuntime({ data, model: tinyModel(ownModel(data)) }, ...flags);
}

/** Where a runtime looks for its model when none is named. It has made that one itself, and does not check it first. */
export function ownModel(data: string): string {
  return join(data, "models/default");
}

/** Over what an earlier runtime left in its data folder. */
export async function openLocalRuntime(
  { data, model }: Pick<LocalRuntime, "data" | "model">,
  ...flags: string[]
): Promise<LocalRuntime> {
  const named = model === ownModel(data) ? [] : ["--model", model];
  const child = spawn(process.execPath, [WHET, "up", "--data", data, ...named, ...flags], {
    stdio: ["ignore", "ignore", "pipe"],
  });
  let errors = "";
  child.stderr.on("data", (chunk: Buffer) => (errors += chunk.toString()));
  await ready(data, child, () => errors);
  const services = (): ServiceInfo[] => readRuntime(data)?.services ?? [];
  const stop = (signal: NodeJS.Signals = "SIGTERM"): Promise<void> => stopChild(child, signal);
  return {
    data,
    model,
    pid: child.pid ?? 0,
    services,
    address: (name, purpose = "grpc") =>
      `127.0.0.1:${services().find((service) => service.name === name)?.ports[purpose]}`,
    whet: (...args) => runWhet(...args, "--data", data, "--json"),
    stop,
    async [Symbol.asyncDispose]() {
      await stop();
      if (!process.env["WHETSTONE_TEST_KEEP"]) rmSync(data, { recursive: true, force: true });
    },
  };
}

/** A job that is done in seconds; the model learns nothing worth knowing. */
export function smallJob(
  name: string,
  model: string,
  more: { steps?: number; lag?: number; groups?: number } = {},
): JsonObject {
  return {
    name,
    model: { path: model },
    agent: { kind: "frozenlake", args: { variant: "compact" } },
    environment: { kind: "frozenlake", args: { size: 4, observation: "compact", maxSteps: 4 } },
    train: { seeds: { first: "1", count: "100000" } },
    algorithm: { policyGradient: { groupSize: 4, optimizer: { learningRate: 0.001 }, batching: { miniBatches: 2 } } },
    loop: { steps: more.steps ?? 3, batchGroups: more.groups ?? 8, maxPolicyLag: more.lag ?? 0 },
    sampling: { temperature: 1, maxTokens: 2 },
    limits: {
      maxSteps: 4,
      maxPromptTokens: 64,
      maxResponseTokens: 8,
      enforcePromptLimitEachStep: true,
      episodeTimeout: "60s",
    },
    seed: "3",
  };
}

async function ready(data: string, child: ChildProcess, errors: () => string): Promise<void> {
  const end = performance.now() + READY_MS;
  while (performance.now() < end) {
    if (child.exitCode !== null) throw new Error(`whet up ended with ${child.exitCode}: ${errors()}`);
    const state = readRuntime(data);
    if (state?.phase === "ready" && state.pid === child.pid) return;
    await delay(50);
  }
  child.kill("SIGKILL");
  throw new Error(`the runtime was not ready in ${READY_MS} ms: ${errors()}`);
}

function readRuntime(data: string): RuntimeFile | undefined {
  try {
    return JSON.parse(readFileSync(join(data, "runtime.json"), "utf8")) as RuntimeFile;
  } catch {
    return undefined;
  }
}

async function stopChild(child: ChildProcess, signal: NodeJS.Signals): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const gone = new Promise((done) => child.once("exit", done));
  child.kill(signal);
  await gone;
}
