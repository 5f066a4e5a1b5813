// SPDX-License-Identifier: Apache-2.0
// The services of one machine, with controllers that elect their leader by a Lease of a real cluster.
import { type ChildProcess, spawn } from "node:child_process";
import { createWriteStream, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { freePort, waitFor } from "@whetstone/testkit";
import { isHealthy } from "../../services/cli/src/runtime/health.ts";
import { dataPaths } from "../../services/cli/src/runtime/layout.ts";
import type { ServiceSpec } from "../../services/cli/src/runtime/service-spec.ts";
import { serviceTable } from "../../services/cli/src/runtime/services.ts";
import { tinyModel } from "./tiny-model.ts";

const READY_MS = 180_000;

export interface Controller {
  readonly name: string;
  readonly pid: number;
  readonly address: string;
  /** How it ended; undefined: it has not. */
  exit(): { readonly code: number | null; readonly signal: NodeJS.Signals | null } | undefined;
  log(): Record<string, unknown>[];
  kill(signal: NodeJS.Signals): void;
}

export interface Stage extends AsyncDisposable {
  readonly data: string;
  readonly model: string;
  port(service: string, purpose: string): number;
  /** @param settings  more WHETSTONE_* variables of it. */
  startController(name: string, settings?: Readonly<Record<string, string>>): Promise<Controller>;
}

/**
 * @param namespace  of the Lease and of all objects; the caller makes and removes it.
 * @param engines  beside it, which the gateway knows from the start
 * @param withPools  environments are on the cluster, in EnvironmentPools, and none is here
 */
export async function setStage(namespace: string, engines = 1, withPools = false): Promise<Stage> {
  const data = mkdtempSync(join(tmpdir(), "whetstone-stage-"));
  const model = tinyModel(join(data, "models/tiny"));
  const all = await serviceTable({
    paths: dataPaths(data),
    model,
    engines,
    engineDtype: "float32",
    gateways: 1,
    trainers: 1,
    trainerDtype: "float32",
    trainerBackend: "local",
    trainerRanks: 1,
    trainerThreads: 1,
    natsServer: "nats-server",
    ports: {},
    objectStore: {},
    ownData: false,
    storeEpisodes: false,
    pythonEnvironments: [],
  });
  const table = withPools ? all.filter(({ name }) => name !== "env-runner").map(byPools) : all;
  const children: ChildProcess[] = [];
  const start = async (spec: ServiceSpec): Promise<ChildProcess> => {
    await spec.prepare?.(new AbortController().signal);
    // Our own services end when their standard input does: nothing outlives a test that was killed.
    const child = spawn(spec.command[0], spec.command.slice(1), {
      env: { ...spec.environment, WHETSTONE_SUPERVISED: "1" },
      stdio: ["pipe", "pipe", "pipe"],
    });
    const log = createWriteStream(join(data, `${spec.name}.log`));
    child.stdout.pipe(log);
    child.stderr.pipe(log);
    children.push(child);
    await waitFor(() => isHealthy(spec.health), { timeoutMs: READY_MS, what: `${spec.name} to be ready` });
    return child;
  };
  const rest = new Map(table.map((spec) => [spec.name, spec]));
  const controller = rest.get("controller") as ServiceSpec;
  const end = (): void => {
    for (const child of children) child.kill("SIGKILL");
    if (!process.env["WHETSTONE_TEST_KEEP"]) rmSync(data, { recursive: true, force: true });
  };
  try {
    await start(rest.get("nats") as ServiceSpec);
    await Promise.all(table.filter(({ name }) => name !== "nats" && name !== "controller").map(start));
  } catch (error) {
    end();
    throw error;
  }
  return {
    data,
    model,
    port: (service, purpose) => rest.get(service)?.ports[purpose] ?? 0,
    startController: async (name, settings = {}) => {
      const spec = await replica(controller, name, { ...settings, WHETSTONE_KUBE_NAMESPACE: namespace });
      return controllerOf(spec, await start(spec), data);
    },
    async [Symbol.asyncDispose]() {
      end();
    },
  };
}

function byPools(spec: ServiceSpec): ServiceSpec {
  const { WHETSTONE_ENV_ADDRESS: _, ...environment } = spec.environment;
  return {
    ...spec,
    environment: { ...environment, ...(spec.name === "orchestrator" && { WHETSTONE_WATCH_POOLS: "true" }) },
  };
}

async function replica(
  spec: ServiceSpec,
  name: string,
  settings: Readonly<Record<string, string>>,
): Promise<ServiceSpec> {
  const grpc = await freePort();
  const environment = {
    ...spec.environment,
    ...settings,
    WHETSTONE_GRPC_PORT: String(grpc),
    WHETSTONE_KUBE: "true",
  };
  return { ...spec, name, environment, ports: { grpc }, health: { kind: "grpc", port: grpc } };
}

function controllerOf({ name, ports }: ServiceSpec, child: ChildProcess, data: string): Controller {
  return {
    name,
    pid: child.pid ?? 0,
    address: `127.0.0.1:${ports["grpc"]}`,
    exit: () => {
      const { exitCode: code, signalCode: signal } = child;
      return code === null && signal === null ? undefined : { code, signal };
    },
    log: () => {
      const lines = readFileSync(join(data, `${name}.log`), "utf8").split("\n");
      return lines
        .filter((line) => line.startsWith("{") && line.endsWith("}"))
        .map((line) => JSON.parse(line) as Record<string, unknown>);
    },
    kill: (signal) => void child.kill(signal),
  };
}
