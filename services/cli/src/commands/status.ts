// SPDX-License-Identifier: Apache-2.0
/** `whet status`: what runs, where, how much memory it holds, and what it works on. */
import { statfsSync } from "node:fs";

import { EngineState } from "@whetstone/proto/inference/v1/inference";
import { JobPhase } from "@whetstone/proto/jobs/v1/jobs";

import { fleetClient, jobClient } from "../connect/clients.ts";
import { runningRuntime } from "../connect/endpoint.ts";
import type { Terminal } from "../terminal/terminal.ts";
import { formatBytes, formatTable } from "../terminal/format.ts";
import { enumShortName } from "../terminal/enum-names.ts";
import { EngineStateSchema } from "@whetstone/proto/inference/v1/inference";
import { dataDirectory, dataPaths } from "../runtime/layout.ts";
import { residentBytes } from "../runtime/processes.ts";
import { HOST } from "../runtime/ports.ts";
import type { RuntimeState } from "../runtime/state-file.ts";
import { portOf } from "../runtime/state-file.ts";
import { clusterStatus } from "./cluster-status.ts";
import type { CommandContext, CommonOptions } from "./context.ts";
import { portsText } from "./start-progress.ts";

export interface EngineStatus {
  readonly id: string;
  readonly state: string;
  readonly version?: number;
  readonly label?: string;
  readonly inFlight: number;
  readonly reason: string;
}

/** A status must not hang on a service that does. */
const ASK_WITHIN_MS = 2_000;

export async function status(flags: CommonOptions, context: CommandContext): Promise<void> {
  if (context.environment["WHETSTONE_CONTEXT"]) return await clusterStatus(flags, context);
  const state = runningRuntime(flags.data, context.environment);
  if (!state) return notRunning(flags, context);
  const [engines, jobs] = await Promise.all([askEngines(state), askJobs(state)]);
  const disk = diskOf(dataPaths(dataDirectory(flags.data, context.environment)).root);
  const services = state.services.map((service) => ({
    ...service,
    rssBytes: service.pid === undefined ? undefined : residentBytes(service.pid),
  }));
  if (flags.json === true) return context.terminal.json({ running: true, ...state, services, engines, jobs, disk });
  const { terminal } = context;
  if (disk.isFull)
    terminal.line(
      terminal.paint("red", `no space left on the disk of ${disk.path}: ${formatBytes(disk.freeBytes)} are free`),
    );
  terminal.line(`${terminal.paint("bold", state.phase)}  pid ${state.pid}, since ${state.startedAt}`);
  const rows = services.map((service) => [
    service.name,
    phaseText(service.phase, terminal),
    String(service.pid ?? "–"),
    portsText(service),
    service.rssBytes === undefined ? "–" : formatBytes(service.rssBytes),
    String(service.crashes),
  ]);
  for (const line of formatTable(["SERVICE", "STATE", "PID", "PORTS", "MEMORY", "RESTARTS"], rows)) terminal.line(line);
  printEngines(engines, terminal);
  terminal.line(
    jobs === undefined
      ? "\njobs: the controller does not answer"
      : jobs.length === 0
        ? "\nno running job"
        : `\nrunning: ${jobs.map((job) => `${job.name} (step ${job.step}/${job.steps})`).join(", ")}`,
  );
  for (const { name, reason, message } of jobs ?? [])
    if (message !== "") terminal.line(terminal.paint("yellow", `  ${name}: ${reason}: ${message}`));
}

/** Below this, logs, checkpoints and NATS are about to fail, or do so already. */
const LITTLE_BYTES = 4 * 1024 * 1024;

function diskOf(path: string): { path: string; freeBytes: number; isFull: boolean } {
  const { bavail, bsize } = statfsSync(path);
  const freeBytes = bavail * bsize;
  return { path, freeBytes, isFull: freeBytes < LITTLE_BYTES };
}

function notRunning(flags: CommonOptions, context: CommandContext): void {
  const root = dataPaths(dataDirectory(flags.data, context.environment)).root;
  if (flags.json === true) context.terminal.json({ running: false, data: root });
  else context.terminal.line(`nothing is running in ${root}; start it with \`whet up\``);
}

function printEngines(engines: readonly EngineStatus[] | undefined, terminal: Terminal): void {
  terminal.line();
  if (engines === undefined) return terminal.line("engines: the gateway does not answer");
  const rows = engines.map((engine) => [
    engine.id,
    engine.state,
    engine.label ?? "–",
    String(engine.inFlight),
    engine.reason,
  ]);
  for (const line of formatTable(["ENGINE", "STATE", "SERVES", "IN FLIGHT", "REASON"], rows)) terminal.line(line);
}

function phaseText(phase: string, terminal: Terminal): string {
  return terminal.paint(
    phase === "ready" ? "green" : phase === "backoff" || phase === "failed" ? "red" : "yellow",
    phase,
  );
}

async function askEngines(state: RuntimeState): Promise<EngineStatus[] | undefined> {
  const port = portOf(state, "gateway", "grpc");
  if (port === undefined) return undefined;
  await using fleet = fleetClient(`${HOST}:${port}`);
  try {
    const { engines } = await fleet.listEngines({}, { deadlineMs: ASK_WITHIN_MS });
    return engines.map((engine) => ({
      id: engine.id,
      state: enumShortName(EngineStateSchema, engine.state ?? EngineState.UNSPECIFIED),
      ...(engine.policy ? { version: Number(engine.policy.policyVersion), label: engine.policy.label } : {}),
      inFlight: engine.inFlight,
      reason: engine.reason,
    }));
  } catch {
    return undefined;
  }
}

interface RunningJob {
  readonly name: string;
  readonly step: number;
  readonly steps: number;
  readonly reason: string;
  /** What people should read while it runs. Empty: all is well. */
  readonly message: string;
}

async function askJobs(state: RuntimeState): Promise<RunningJob[] | undefined> {
  const port = portOf(state, "controller", "grpc");
  if (port === undefined) return undefined;
  await using jobs = jobClient(`${HOST}:${port}`);
  try {
    const answer = await jobs.listJobs({ pageSize: 100 }, { deadlineMs: ASK_WITHIN_MS });
    const running = answer.jobs.filter((job) => job.status?.phase === JobPhase.RUNNING);
    return running.map((job) => ({
      name: job.spec?.name ?? "",
      step: job.status?.step ?? 0,
      steps: job.spec?.loop?.steps ?? 0,
      reason: job.status?.reason ?? "",
      message: job.status?.message ?? "",
    }));
  } catch {
    return undefined;
  }
}
