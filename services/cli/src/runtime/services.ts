// SPDX-License-Identifier: Apache-2.0
/** The table of services: how each is started on this machine, and what it needs first. */
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";

import type { DataPaths } from "./layout.ts";
import { INSTALLATION, pythonEnvironment, pythonPath } from "./layout.ts";
import { natsConfig } from "./nats-server.ts";
import { PORT_NAMES } from "./port-names.ts";
import { environmentPath, environmentPython, PYTHON_POOL } from "./python-environments.ts";
import type { FixedPorts } from "./port-names.ts";
import { HOST, freePorts } from "./ports.ts";
import type { ServiceSpec } from "./service-spec.ts";

export interface TableOptions {
  readonly paths: DataPaths;
  readonly model: string;
  /** Makes the default model. Absent: the user's own folder is used. */
  readonly prepareModel?: (signal: AbortSignal) => Promise<void>;
  readonly engines: number;
  readonly engineDtype: string;
  /** Replicas of the gateway. */
  readonly gateways: number;
  /** Each works for one job at a time. */
  readonly trainers: number;
  readonly trainerThreads: number;
  readonly trainerDtype: string;
  readonly trainerBackend: string;
  /** Devices that the backend verl shards its models over. */
  readonly trainerRanks: number;
  readonly natsServer: string;
  readonly ports: FixedPorts;
  /** Variables by which services know their object store; none: there is none. */
  readonly objectStore: Readonly<Record<string, string>>;
  /** Large bodies of episodes go there, too. */
  readonly storeEpisodes: boolean;
  /** Engines keep there what they fetched, a folder each. Absent: in memory only. */
  readonly weightsFolder?: string;
  /** Trainer, engines and gateways share no folder with the controller. */
  readonly ownData: boolean;
  /** Environments in Python, as `python -m whetstone_env` is told of them. Empty: none. */
  readonly pythonEnvironments: readonly string[];
}

/** Settings that a user may tune through the environment; everything else of ours is set here. */
const TUNABLE: Readonly<Record<string, readonly string[]>> = {
  "env-runner": [
    "WHETSTONE_SLOTS",
    "WHETSTONE_MODULE_MEMORY_MIB",
    "WHETSTONE_MODULE_HANG_MS",
    "WHETSTONE_ARTIFACT_CACHE_BYTES",
    "WHETSTONE_MCP_SERVERS_PATH",
    "WHETSTONE_BROWSER_PATH",
    "WHETSTONE_BROWSERS",
    "WHETSTONE_BROWSER_CONTEXTS",
    "WHETSTONE_BROWSER_MEMORY_MIB",
    "WHETSTONE_BROWSER_SANDBOX",
    "WHETSTONE_SANDBOX_DAEMON_PATH",
  ],
  gateway: ["WHETSTONE_DRAIN_MS"],
  "env-runner-python": ["WHETSTONE_CALL_TIMEOUT_MS", "WHETSTONE_MEMORY_MIB"],
  controller: ["WHETSTONE_KUBE", "WHETSTONE_KUBE_NAMESPACE", "WHETSTONE_LEASE"],
  orchestrator: ["WHETSTONE_MAX_EPISODES", "WHETSTONE_MODULE_MEMORY_MIB", "WHETSTONE_MODULE_HANG_MS"],
};

/** Specs of all services. Finds free ports for those that the user did not fix. */
export async function serviceTable(options: TableOptions): Promise<ServiceSpec[]> {
  const port = await choosePorts(options);
  const engines = Array.from({ length: options.engines }, (_, index) =>
    engine(options, index, port(`engine-${index}`), port("controller")),
  );
  const gatewayPorts = Array.from({ length: options.gateways }, (_, index) => ({
    http: port(numbered("gateway", index)),
    grpc: port(`${numbered("gateway", index)}-grpc`),
    agents: port(`${numbered("gateway", index)}-agents`),
  }));
  const gateways = gatewayPorts.map((ports, index) =>
    gateway(numbered("gateway", index), engines, ports, {
      ...(options.ownData ? artifactAddress(port("controller")) : {}),
      ...(options.gateways > 1 ? amongOthers(ports, gatewayPorts) : {}),
    }),
  );
  const gatewayNames = gateways.map(({ name }) => name);
  const trainers = Array.from({ length: options.trainers }, (_, index) => {
    const name = numbered("trainer", index);
    return trainer(name, options, { grpc: port(name), weights: port(`${name}-weights`) }, port);
  });
  const runners = pythonRunner(options, port("env-runner-python"));
  const runnerNames = ["env-runner", ...runners.map(({ name }) => name)];
  // Where they fetch the model that they start with, they wait for the controller.
  const engineNames = options.ownData ? [] : engines.map(({ name }) => name);
  const pools = runners.map(({ ports }) => `${PYTHON_POOL}=${HOST}:${ports["grpc"]}`).join(",");
  const environments = {
    WHETSTONE_ENV_ADDRESS: `${HOST}:${port("env-runner")}`,
    WHETSTONE_ENV_POOLS: pools,
  };
  return [
    nats(options, port("nats"), port("nats-monitor")),
    ...engines,
    ...gateways,
    node({
      name: "env-runner",
      needs: [],
      grpc: port("env-runner"),
      settings: {
        ...artifactAddress(port("controller")),
        WHETSTONE_ARTIFACT_CACHE_PATH: join(options.paths.root, "artifact-cache"),
        WHETSTONE_MATH_VERIFY_PATH: options.paths.mathVerify,
        WHETSTONE_MINIWOB_PATH: options.paths.miniwob,
        WHETSTONE_SEARCH_INDEX_PATH: options.paths.search,
      },
    }),
    ...runners,
    ...trainers,
    node({
      name: "orchestrator",
      folder: "rollout-orchestrator",
      needs: ["nats", ...gatewayNames, ...runnerNames],
      grpc: port("orchestrator"),
      settings: {
        WHETSTONE_NATS_URL: natsUrl(port("nats")),
        WHETSTONE_GATEWAY_URL: gateways.map(({ ports }) => `http://${HOST}:${ports["http"]}`).join(","),
        WHETSTONE_AGENT_GATEWAY_URL: gateways.map(({ ports }) => `http://${HOST}:${ports["agents"]}`).join(","),
        // Programs of jobs lie anywhere on a machine whose user submits them.
        WHETSTONE_PROGRAM_FOLDERS: "/",
        ...options.objectStore,
        WHETSTONE_STORE_EPISODES: String(options.storeEpisodes),
        ...environments,
      },
    }),
    node({
      name: "controller",
      needs: [
        "nats",
        ...gatewayNames,
        ...runnerNames,
        ...trainers.map(({ name }) => name),
        "orchestrator",
        ...engineNames,
      ],
      grpc: port("controller"),
      settings: {
        WHETSTONE_NATS_URL: natsUrl(port("nats")),
        WHETSTONE_NATS_MONITORS: `http://${HOST}:${port("nats-monitor")}`,
        WHETSTONE_FLEET_ADDRESS: gateways.map(({ ports }) => `${HOST}:${ports["grpc"]}`).join(","),
        WHETSTONE_TRAINER_ADDRESS: trainers.map(({ ports }) => `${HOST}:${ports["grpc"]}`).join(","),
        ...environments,
        WHETSTONE_AGENTS_URL: `http://${HOST}:${port("gateway-agents")}`,
        WHETSTONE_ORCHESTRATOR_ADDRESS: `${HOST}:${port("orchestrator")}`,
        WHETSTONE_DATA_PATH: options.paths.root,
        WHETSTONE_SHARED_DATA: String(!options.ownData),
        ...options.objectStore,
      },
    }),
  ];
}

/** Ports that nobody fixes. */
const UNNAMED = ["nats-monitor", "env-runner-python", "trainer-weights"];

/** The first has the name that a single one has. */
function numbered(service: "gateway" | "trainer", index: number): string {
  return index === 0 ? service : `${service}-${index}`;
}

/** Engines beyond the first get the ports after it when it is fixed; gateways and trainers beyond the first get free ones. */
async function choosePorts(options: TableOptions): Promise<(name: string) => number> {
  const names = PORT_NAMES.filter((name) => name !== "engine");
  const beyond = (service: "gateway" | "trainer", count: number): string[] =>
    Array.from({ length: count - 1 }, (_, index) => numbered(service, index + 1));
  const unnamed = [
    ...UNNAMED,
    ...beyond("gateway", options.gateways).flatMap((name) => [name, `${name}-grpc`, `${name}-agents`]),
    ...beyond("trainer", options.trainers).flatMap((name) => [name, `${name}-weights`]),
  ];
  const free = await freePorts(names.length + options.engines + unnamed.length);
  const chosen = new Map<string, number>(unnamed.map((name) => [name, free.pop() as number]));
  for (const name of names) chosen.set(name, options.ports[name] ?? (free.pop() as number));
  for (let index = 0; index < options.engines; index += 1) {
    const fixed = options.ports.engine;
    chosen.set(`engine-${index}`, fixed === undefined ? (free.pop() as number) : fixed + index);
  }
  return (name) => chosen.get(name) as number;
}

/** Where the controller gives what was pushed. */
function artifactAddress(controllerPort: number): Record<string, string> {
  return { WHETSTONE_ARTIFACT_ADDRESS: `${HOST}:${controllerPort}` };
}

/** A data folder of the service's own, where the controller's is to be nobody else's. */
function ownData(
  { ownData: isOwn, paths }: TableOptions,
  name: string,
  controllerPort: number,
): Record<string, string> {
  return isOwn ? { WHETSTONE_DATA_PATH: join(paths.own, name), ...artifactAddress(controllerPort) } : {};
}

function natsUrl(port: number): string {
  return `nats://${HOST}:${port}`;
}

function nats(options: TableOptions, port: number, monitor: number): ServiceSpec {
  const config = join(options.paths.root, "nats.conf");
  const prepare = async (): Promise<void> => {
    mkdirSync(options.paths.nats, { recursive: true });
    writeFileSync(config, natsConfig(port, options.paths.nats, monitor));
  };
  const command = [options.natsServer, "--config", config] as const;
  return {
    name: "nats",
    needs: [],
    command,
    environment: baseEnvironment(),
    ports: { nats: port, monitor },
    health: { kind: "nats", port },
    prepare,
  };
}

function engine(options: TableOptions, index: number, port: number, controllerPort: number): ServiceSpec {
  const name = `engine-${index}`;
  const command = python("whetstone_engine", [
    "--model",
    options.model,
    "--host",
    HOST,
    "--port",
    String(port),
    "--served-model-name",
    "policy",
    "--dtype",
    options.engineDtype,
    ...(options.weightsFolder === undefined ? [] : ["--weights-dir", join(options.weightsFolder, name)]),
  ]);
  return {
    name,
    needs: [],
    command,
    environment: {
      ...baseEnvironment(),
      ...pythonEnvironment(),
      ...logLevel(),
      ...options.objectStore,
      ...ownData(options, name, controllerPort),
    },
    ports: { http: port },
    health: { kind: "http", port, paths: ["/health"] },
    ...(options.prepareModel ? { prepare: options.prepareModel } : {}),
  };
}

function trainer(
  name: string,
  options: TableOptions,
  ports: { readonly grpc: number; readonly weights: number },
  port: (name: string) => number,
): ServiceSpec {
  const threads = String(options.trainerThreads);
  const args = [
    "--host",
    HOST,
    "--port",
    String(ports.grpc),
    "--nats",
    natsUrl(port("nats")),
    "--threads",
    threads,
    "--device",
    "auto",
    "--dtype",
    options.trainerDtype,
    "--backend",
    options.trainerBackend,
    "--ranks",
    String(options.trainerRanks),
    // The same after a restart: engines may be on their way to what it served before.
    "--weights-port",
    String(ports.weights),
    "--weights-group",
    HOST,
  ];
  return {
    name,
    needs: ["nats"],
    command: python("whetstone_trainer", args),
    // Whoever submits jobs here runs the trainer, too.
    environment: {
      ...baseEnvironment(),
      ...pythonEnvironment(options.trainerThreads),
      ...logLevel(),
      ...pick(["WHETSTONE_ALGORITHM_HANG_MS"]),
      ...options.objectStore,
      ...ownData(options, name, port("controller")),
      WHETSTONE_ALGORITHM_MODULES: "1",
    },
    ports,
    health: { kind: "grpc", port: ports.grpc },
  };
}

/** None without environments in Python. */
function pythonRunner({ pythonEnvironments }: TableOptions, port: number): ServiceSpec[] {
  if (pythonEnvironments.length === 0) return [];
  const name = "env-runner-python";
  const [own, ...args] = python("whetstone_env", ["--listen", `${HOST}:${port}`, ...pythonEnvironments]);
  const sources = { PYTHONPATH: environmentPath(INSTALLATION.pythonSources, process.env) };
  return [
    {
      name,
      needs: [],
      command: [environmentPython(process.env) ?? own, ...args],
      environment: {
        ...baseEnvironment(),
        ...pythonEnvironment(),
        ...sources,
        ...logLevel(),
        ...pick(TUNABLE[name] ?? []),
      },
      ports: { grpc: port },
      health: { kind: "grpc", port },
    },
  ];
}

function gateway(
  name: string,
  engines: readonly ServiceSpec[],
  ports: GatewayPorts,
  more: Readonly<Record<string, string>>,
): ServiceSpec {
  const list = engines.map((spec, index) => `e${index}=http://${HOST}:${spec.ports["http"]}`).join(",");
  const settings = {
    ...pick(TUNABLE["gateway"] ?? []),
    WHETSTONE_ENGINES: list,
    WHETSTONE_HTTP_PORT: String(ports.http),
    WHETSTONE_AGENT_PORT: String(ports.agents),
    ...more,
  };
  const spec = node({ name, folder: "inference-gateway", needs: [], grpc: ports.grpc, settings });
  const health = { kind: "http", port: ports.http, paths: ["/healthz", "/health"] } as const;
  return { ...spec, ports, health };
}

type GatewayPorts = Record<"http" | "grpc" | "agents", number>;

/** Where the other replicas are: requests with keys that they issued are passed on, and one that leaves hands its sessions over. */
function amongOthers(own: GatewayPorts, all: readonly GatewayPorts[]): Record<string, string> {
  const urls = (of: "http" | "agents"): string => all.map((ports) => `http://${HOST}:${ports[of]}`).join(",");
  return {
    WHETSTONE_OWN_URL: `http://${HOST}:${own.agents}`,
    WHETSTONE_PEER_URL: urls("agents"),
    WHETSTONE_HANDOVER_URL: urls("http"),
  };
}

interface NodeService {
  readonly name: string;
  /** Below services/. Absent: the name. */
  readonly folder?: string;
  readonly needs: readonly string[];
  /** Its gRPC port. */
  readonly grpc: number;
  readonly settings: Readonly<Record<string, string>>;
}

/** A TypeScript service: one Node, gRPC health. */
function node({ name, folder = name, needs, grpc, settings }: NodeService): ServiceSpec {
  const own = { WHETSTONE_HOST: HOST, WHETSTONE_GRPC_PORT: String(grpc), ...settings };
  return {
    name,
    needs,
    command: [process.execPath, INSTALLATION.service(folder)],
    environment: { ...baseEnvironment(), ...logLevel(), ...pick(TUNABLE[name] ?? []), ...own },
    ports: { grpc },
    health: { kind: "grpc", port: grpc },
  };
}

function python(module: string, args: string[]): [string, ...string[]] {
  return [pythonPath(), "-m", module, ...args];
}

/** The user's environment without our variables: a setting for one service must not reach another by accident. */
function baseEnvironment(): Record<string, string> {
  const entries = Object.entries(process.env).filter(
    ([name, value]) => value !== undefined && !name.startsWith("WHETSTONE_"),
  );
  return Object.fromEntries(entries) as Record<string, string>;
}

function logLevel(): Record<string, string> {
  return pick(["WHETSTONE_LOG_LEVEL"]);
}

function pick(names: readonly string[]): Record<string, string> {
  return Object.fromEntries(names.flatMap((name) => (process.env[name] ? [[name, process.env[name]]] : [])));
}
