// SPDX-License-Identifier: Apache-2.0
/** From options to a started runtime; used by `up` and by `train` when none is up. */
import { resolve } from "node:path";

import { localModel } from "../artifacts/local-artifact.ts";
import { ensureDefaultModel } from "../models/models-tool.ts";
import type { Violation } from "../cli-error.ts";
import { badInput } from "../cli-error.ts";
import { dataDirectory, dataPaths } from "../runtime/layout.ts";
import { checkWritable } from "../runtime/make-folder.ts";
import { preflight } from "../runtime/preflight.ts";
import { Runtime } from "../runtime/runtime.ts";
import type { FixedPorts } from "../runtime/port-names.ts";
import { PORT_NAMES } from "../runtime/port-names.ts";
import { readPythonEnvironments } from "../runtime/python-environments.ts";
import { serviceTable } from "../runtime/services.ts";
import type { CommandContext, CommonOptions } from "./context.ts";
import { startProgress } from "./start-progress.ts";

/** As commander gives them: `--gateway-grpc-port 7` is `gatewayGrpcPort: "7"`. */
export interface RuntimeFlags extends CommonOptions {
  readonly model?: string;
  readonly engines?: string;
  readonly gateways?: string;
  readonly trainers?: string;
  readonly trainerThreads?: string;
  readonly trainerDtype?: string;
  readonly engineDtype?: string;
  readonly trainerBackend?: string;
  readonly trainerRanks?: string;
  readonly objectStore?: string;
  readonly storeEpisodes?: boolean;
  readonly weightsDir?: string;
  readonly ownData?: boolean;
  readonly pythonEnv?: readonly string[];
  readonly [port: `${string}Port`]: string | undefined;
}

/** Checks everything, then starts everything. Throws bad input before anything was started. */
export async function openRuntime(
  flags: RuntimeFlags,
  context: CommandContext,
  { modelIsChecked = false } = {},
): Promise<Runtime> {
  const read = readFlags(flags, context.environment);
  const paths = dataPaths(dataDirectory(flags.data, context.environment));
  const own = flags.model === undefined ? undefined : resolve(localModel(flags.model, paths.root, "--model"));
  const { environment } = context;
  const { ports, engines } = read;
  const checks = { paths, ports, engines, environment, modelIsChecked };
  const { natsServer } = await preflight({ ...checks, ...(own === undefined ? {} : { model: own }) });
  const model = own ?? paths.defaultModel;
  let made: Promise<void> | undefined; // by the first engine that needs it; the others wait for the same
  const prepareModel = (signal: AbortSignal): Promise<void> => (made ??= ensureDefaultModel(model, signal));
  const table = {
    ...read,
    paths,
    model,
    natsServer,
    ...(own === undefined ? { prepareModel } : {}),
  };
  const progress = startProgress(context.terminal, flags.json === true);
  const runtime = new Runtime({ paths, model, services: () => serviceTable(table), onChange: progress.update });
  context.force.addEventListener("abort", () => void runtime.kill());
  return startOrStop(runtime, progress, context.signal);
}

/** Throws bad input with every violation. */
function readFlags(flags: RuntimeFlags, environment: NodeJS.ProcessEnv) {
  const violations: Violation[] = [];
  const engines = readInteger(flags.engines ?? "1", "--engines", [1, 64], violations);
  const engineDtype = readDtype(flags.engineDtype, "--engine-dtype", violations);
  const trainer = readTrainer(flags, environment, violations);
  const gateways = readInteger(flags.gateways ?? "1", "--gateways", [1, 16], violations);
  const trainers = readInteger(flags.trainers ?? "1", "--trainers", [1, 16], violations);
  const ports = readPorts(flags, environment, violations);
  const pythonEnvironments = readPythonEnvironments(flags.pythonEnv ?? [], violations);
  const objectStore = readObjectStore(flags, environment, violations);
  const weights = readWeightsFolder(flags, environment, violations);
  const { ownData = false, storeEpisodes = false } = flags;
  const hasStore = Object.keys(objectStore).length > 0;
  if (ownData && !hasStore)
    violations.push({ path: "--own-data", reason: "needs --object-store: weights have no other way to engines" });
  if (storeEpisodes && !hasStore)
    violations.push({ path: "--store-episodes", reason: "needs --object-store: where they are to be put" });
  if (violations.length > 0) throw badInput(violations);
  const processes = { engines, engineDtype, gateways, trainers, ...trainer };
  return { ...processes, ports, pythonEnvironments, objectStore, storeEpisodes, ownData, ...weights };
}

/** Made now, so that a place where nothing can be written is refused before anything starts. */
function readWeightsFolder(
  flags: RuntimeFlags,
  environment: NodeJS.ProcessEnv,
  violations: Violation[],
): { weightsFolder?: string } {
  const named = flags.weightsDir ?? environment["WHETSTONE_WEIGHTS_DIR"] ?? "";
  if (named === "") return {};
  const weightsFolder = resolve(named);
  const refused = checkWritable(weightsFolder);
  violations.push(...refused.map(({ path, reason }) => ({ path: "--weights-dir", reason: `${path} ${reason}` })));
  return { weightsFolder };
}

/** What services are told; trainer and engines say themselves what they need beside it. */
function readObjectStore(
  flags: RuntimeFlags,
  environment: NodeJS.ProcessEnv,
  violations: Violation[],
): Record<string, string> {
  const url = flags.objectStore ?? environment["WHETSTONE_OBJECT_STORE"] ?? "";
  if (url === "") return {};
  const isUrl = url.startsWith("s3://"); // What else is wrong with it, trainer and engines say.
  if (!isUrl) violations.push({ path: "--object-store", reason: `must be s3://<bucket>/<prefix>, got "${url}"` });
  const style = environment["WHETSTONE_OBJECT_STORE_STYLE"];
  return { WHETSTONE_OBJECT_STORE: url, ...(style && { WHETSTONE_OBJECT_STORE_STYLE: style }) };
}

function readDtype(given = "float32", path: string, violations: Violation[]): string {
  if (!["float32", "bfloat16"].includes(given))
    violations.push({ path, reason: `must be float32 or bfloat16, got "${given}"` });
  return given;
}

function readTrainer(flags: RuntimeFlags, environment: NodeJS.ProcessEnv, violations: Violation[]) {
  const trainerThreads = readInteger(flags.trainerThreads ?? "1", "--trainer-threads", [1, 256], violations);
  const trainerDtype = readDtype(flags.trainerDtype, "--trainer-dtype", violations);
  const trainerBackend = flags.trainerBackend ?? (environment["WHETSTONE_BACKEND"] || "local");
  if (!["local", "verl"].includes(trainerBackend))
    violations.push({ path: "--trainer-backend", reason: `must be local or verl, got "${trainerBackend}"` });
  const ranks = flags.trainerRanks ?? (environment["WHETSTONE_RANKS"] || "1");
  const trainerRanks = readInteger(ranks, "--trainer-ranks", [1, 64], violations);
  return { trainerThreads, trainerDtype, trainerBackend, trainerRanks };
}

/** An interrupt while it starts stops it again. */
async function startOrStop(
  runtime: Runtime,
  progress: ReturnType<typeof startProgress>,
  signal: AbortSignal,
): Promise<Runtime> {
  const interrupt = (): void => void runtime.stop();
  signal.addEventListener("abort", interrupt);
  try {
    await runtime.start();
    progress.done();
    return runtime;
  } catch (error) {
    progress.failed();
    throw error;
  } finally {
    signal.removeEventListener("abort", interrupt);
  }
}

function readPorts(flags: RuntimeFlags, environment: NodeJS.ProcessEnv, violations: Violation[]): FixedPorts {
  const ports: Partial<Record<(typeof PORT_NAMES)[number], number>> = {};
  for (const name of PORT_NAMES) {
    const flag = flags[`${camelCase(name)}Port`];
    const variable = portVariable(name);
    const text = flag ?? environment[variable];
    if (text === undefined || text === "") continue;
    ports[name] = readInteger(text, flag === undefined ? variable : `--${name}-port`, [1, 65_535], violations);
  }
  return ports;
}

/** "gateway-grpc" → "WHETSTONE_GATEWAY_GRPC_PORT". */
export function portVariable(name: string): string {
  return `WHETSTONE_${name.replaceAll("-", "_").toUpperCase()}_PORT`;
}

function camelCase(name: string): string {
  return name.replace(/-(\w)/g, (_, letter: string) => letter.toUpperCase());
}

type Range = readonly [least: number, most: number];

function readInteger(text: string, path: string, [least, most]: Range, violations: Violation[]): number {
  const value = /^\d+$/.test(text) ? Number(text) : NaN;
  if (!(value >= least && value <= most))
    violations.push({ path, reason: `must be a whole number from ${least} to ${most}, not "${text}"` });
  return value;
}
