// SPDX-License-Identifier: Apache-2.0
// The images of `make images` as containers in one network: what the chart makes of them, without a cluster. No TLS: the
// chart's tests have that.
import { randomBytes } from "node:crypto";
import { setTimeout as delay } from "node:timers/promises";

import {
  GenericContainer,
  getContainerRuntimeClient,
  Network,
  type StartedNetwork,
  type StartedTestContainer,
} from "testcontainers";

const REGISTRY = process.env["REGISTRY"] || "localhost/whetstone";
const TAG = process.env["TAG"] || "dev";
const MODEL = "/data/models/policy";
const READY_MS = 120_000;

/** A container of the installation. It is started and killed by its name, under which the others find it. */
export interface Part {
  readonly name: string;
  readonly image: string;
  readonly command?: readonly string[];
  readonly environment?: Readonly<Record<string, string>>;
  /** Mounts the shared volume at /data. */
  readonly data?: boolean;
  readonly ports?: readonly number[];
}

export interface Installation extends AsyncDisposable {
  /** "127.0.0.1:port" of the controller. It changes when its container starts again. */
  endpoint(): Promise<string>;
  kill(name: string): Promise<void>;
  /** Takes a container off the network for a while: connections that stand hear nothing. */
  cut(name: string, forMs: number): Promise<void>;
}

const service = (name: string, image: string, environment: Record<string, string>, more: Partial<Part> = {}): Part => ({
  name,
  image: `${REGISTRY}/${image}:${TAG}`,
  environment: { WHETSTONE_HOST: "0.0.0.0", ...environment },
  ...more,
});

const NATS_URL = "nats://nats:4222";
const PARTS: readonly Part[] = [
  { name: "nats", image: "nats:2-slim", command: ["-js", "-sd", "/tmp/jetstream"] },
  service("env-runner", "env-runner", { WHETSTONE_GRPC_PORT: "9081" }),
  service(
    "engine",
    "model-tools",
    {},
    {
      command: [
        "whetstone_engine",
        `--model=${MODEL}`,
        "--host=0.0.0.0",
        "--port=8000",
        "--served-model-name=policy",
        "--threads=1",
      ],
      data: true,
    },
  ),
  service(
    "trainer",
    "model-tools",
    {},
    {
      command: ["whetstone_trainer", "--host=0.0.0.0", "--port=7400", "--threads=1", `--nats=${NATS_URL}`],
      data: true,
    },
  ),
  service(
    "gateway",
    "inference-gateway",
    {
      WHETSTONE_HTTP_PORT: "8080",
      WHETSTONE_GRPC_PORT: "9080",
      WHETSTONE_ENGINES: "e0=http://engine:8000",
    },
    { data: true },
  ),
  service("orchestrator", "rollout-orchestrator", {
    WHETSTONE_GRPC_PORT: "9082",
    WHETSTONE_NATS_URL: NATS_URL,
    WHETSTONE_GATEWAY_URL: "http://gateway:8080",
    WHETSTONE_ENV_ADDRESS: "env-runner:9081",
  }),
  service(
    "controller",
    "controller",
    {
      WHETSTONE_GRPC_PORT: "9083",
      WHETSTONE_NATS_URL: NATS_URL,
      WHETSTONE_FLEET_ADDRESS: "gateway:9080",
      WHETSTONE_TRAINER_ADDRESS: "trainer:7400",
      WHETSTONE_ENV_ADDRESS: "env-runner:9081",
      WHETSTONE_ORCHESTRATOR_ADDRESS: "orchestrator:9082",
      WHETSTONE_DATA_PATH: "/data",
      // A stream reserves its bound, and NATS takes three quarters of whatever disk there is.
      WHETSTONE_MAX_EPISODE_BYTES: String(256 * 1024 * 1024),
    },
    { data: true, ports: [9083] },
  ),
];

export const NAMES: readonly string[] = PARTS.map(({ name }) => name);
export const MODEL_PATH = MODEL;

export async function startInstallation(): Promise<Installation> {
  // Its image cannot be pulled where no registry answers; `Symbol.asyncDispose` removes what was made.
  process.env["TESTCONTAINERS_RYUK_DISABLED"] = "true";
  const volume = `whetstone-test-${randomBytes(4).toString("hex")}`;
  const { container: engine } = await getContainerRuntimeClient();
  const { dockerode } = engine;
  await using undo = new AsyncDisposableStack();
  await dockerode.createVolume({ Name: volume });
  undo.defer(async () => void (await dockerode.getVolume(volume).remove({ force: true })));
  const network = await new Network().start();
  undo.defer(async () => void (await network.stop()));
  await makeModel(volume);
  const running = new Map<string, StartedTestContainer>();
  // One after the other: docker 20.10 locks itself up for ever when containers leave a network at the same time.
  undo.defer(async () => {
    for (const one of [...running.values()].reverse()) await one.stop({ timeout: 0 });
  });
  for (const part of PARTS) running.set(part.name, await startPart(part, network, volume));
  const cleanup = undo.move();
  const containerOf = (name: string) => dockerode.getContainer((running.get(name) as StartedTestContainer).getId());
  return {
    endpoint: async () => {
      const { NetworkSettings } = await containerOf("controller").inspect();
      const port = NetworkSettings.Ports["9083/tcp"]?.[0]?.HostPort;
      return `127.0.0.1:${port}`;
    },
    kill: async (name) => {
      await containerOf(name).kill({ signal: "SIGKILL" });
      // As an orchestrator of containers would.
      await containerOf(name).start();
    },
    cut: async (name, forMs) => {
      const target = dockerode.getNetwork(network.getId());
      const id = containerOf(name).id;
      await target.disconnect({ Container: id, Force: true });
      await delay(forMs);
      await target.connect({ Container: id, EndpointConfig: { Aliases: [name] } });
    },
    [Symbol.asyncDispose]: () => cleanup.disposeAsync(),
  };
}

/** The volume for user 10001, with a random tiny model on it. */
async function makeModel(volume: string): Promise<void> {
  const own = `mkdir -p /data/models && chown -R 10001:10001 /data`;
  await runOnce(new GenericContainer("busybox:stable").withCommand(["sh", "-c", own]), volume);
  const tools = new GenericContainer(`${REGISTRY}/model-tools:${TAG}`);
  await runOnce(tools.withCommand(["whetstone_models", "init", MODEL, "--preset", "tiny", "--seed", "7"]), volume);
}

async function runOnce(container: GenericContainer, volume: string): Promise<void> {
  const { Wait } = await import("testcontainers");
  const started = await container
    .withBindMounts([{ source: volume, target: "/data" }])
    .withWaitStrategy(Wait.forOneShotStartup())
    .withStartupTimeout(READY_MS)
    .start();
  await started.stop();
}

async function startPart(part: Part, network: StartedNetwork, volume: string): Promise<StartedTestContainer> {
  const { Wait } = await import("testcontainers");
  let container = new GenericContainer(part.image)
    .withNetwork(network)
    .withNetworkAliases(part.name)
    .withEnvironment({ ...part.environment })
    .withWaitStrategy(Wait.forLogMessage(/ready|listening/i))
    .withStartupTimeout(READY_MS);
  if (part.command) container = container.withCommand([...part.command]);
  if (part.data) container = container.withBindMounts([{ source: volume, target: "/data" }]);
  if (part.ports) container = container.withExposedPorts(...part.ports);
  return await container.start();
}
