// SPDX-License-Identifier: Apache-2.0
// vLLM itself, started with the arguments of a fleet's pod, behind the proxy that stands before it there. WHETSTONE_VLLM is the
// virtual environment that has it (deploy/local/setup-vllm.sh).
import { type ChildProcess, spawn } from "node:child_process";
import { existsSync } from "node:fs";
import { join, resolve } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { freePort } from "@whetstone/testkit";
import type { StoredFleet } from "../../services/controller/src/operator/inference-fleet/schema.ts";
import { enginePod } from "../../services/controller/src/operator/inference-fleet/pods.ts";

const ROOT = resolve(import.meta.dirname, "../..");
/** Below the root of the repository, unless it is absolute. */
const VENV = resolve(ROOT, process.env["WHETSTONE_VLLM"] ?? "");
const PROXY = join(ROOT, "services/inference-gateway/src/engine-proxy.ts");
/** It reads half of PyTorch and makes its kernels: half a minute on an idle machine. */
const READY_MS = 300_000;

/** Why there is no vLLM here; "": there is. Where one is named, it is an error that it is not there. */
export const NO_VLLM = process.env["WHETSTONE_VLLM"] ? "" : "WHETSTONE_VLLM names no environment with vLLM";
if (!NO_VLLM && !existsSync(join(VENV, "bin/vllm"))) throw new Error(`WHETSTONE_VLLM: there is no vLLM in ${VENV}`);

export interface Vllm extends AsyncDisposable {
  readonly dataUrl: string;
  readonly controlUrl: string;
  /** Seconds until it answered. */
  readonly startSeconds: number;
  log(): string;
}

export interface VllmOptions {
  readonly args?: readonly string[];
  readonly env?: Readonly<Record<string, string>>;
  /** Where its proxy keeps the weights that it fetches; absent: it fetches none. */
  readonly weightsDir?: string;
}

export async function startVllm(model: string, { args = [], env = {}, weightsDir }: VllmOptions = {}): Promise<Vllm> {
  const began = performance.now();
  const [engine, data, control, health] = await Promise.all([freePort(), freePort(), freePort(), freePort()]);
  const pod = enginePod(fleetOf(model, args), 0).spec as unknown as Pod;
  const ours = { engine, ports: { 8000: data, 8001: control, 8002: health } as Record<string, number> };
  const guard = start(
    [process.execPath, PROXY],
    settings(pod.initContainers[0], ours, {
      WHETSTONE_HOST: "127.0.0.1",
      ...(weightsDir && { WHETSTONE_WEIGHTS_DIR: weightsDir }),
    }),
  );
  const [container] = pod.containers;
  const command = [...(container?.command ?? []), ...(container?.args ?? [])].map((word) => moved(word, engine));
  const server = start([join(VENV, "bin", command[0] ?? ""), ...command.slice(1)], settings(container, ours, env));
  const stop = async (): Promise<void> => void (await Promise.all([end(server.child), end(guard.child)]));
  try {
    await answers(`http://127.0.0.1:${health}/health`, server);
  } catch (error) {
    await stop();
    throw error;
  }
  return {
    dataUrl: `http://127.0.0.1:${data}`,
    controlUrl: `http://127.0.0.1:${control}`,
    startSeconds: (performance.now() - began) / 1000,
    log: () => server.log() + guard.log(),
    [Symbol.asyncDispose]: stop,
  };
}

function fleetOf(model: string, args: readonly string[]): StoredFleet {
  const template = { image: "", proxyImage: "", imagePullPolicy: "Never" as const, terminationGracePeriodSeconds: 15 };
  return {
    metadata: { name: "vllm", uid: "u", resourceVersion: "1" },
    spec: {
      ...{ replicas: 1, nodesPerReplica: 1, onDemand: false, drainSeconds: 30, updateTimeoutSeconds: 60 },
      engine: { profile: "vllm", device: "cpu", dtype: "float32", threads: 1, args: [...args] },
      model: { path: model },
      template,
    },
  };
}

interface Container {
  readonly command?: readonly string[];
  readonly args?: readonly string[];
  readonly env?: readonly { readonly name: string; readonly value: string }[];
}
interface Pod {
  readonly containers: readonly Container[];
  readonly initContainers: readonly Container[];
}
interface Places {
  readonly engine: number;
  readonly ports: Readonly<Record<string, number>>;
}

/** Its pod has the loopback for itself; here others listen too. */
function moved(word: string, engine: number): string {
  return word.replace(/(--port=|127\.0\.0\.1:)8100$/, `$1${engine}`);
}

function settings(
  container: Container | undefined,
  at: Places,
  more: Readonly<Record<string, string>>,
): NodeJS.ProcessEnv {
  const own = (container?.env ?? []).map(({ name, value }) => [name, `${at.ports[value] ?? moved(value, at.engine)}`]);
  const { PATH = "", TMPDIR } = process.env;
  return { PATH: `${join(VENV, "bin")}:${PATH}`, ...(TMPDIR && { TMPDIR }), ...Object.fromEntries(own), ...more };
}

interface Running {
  readonly child: ChildProcess;
  readonly log: () => string;
}

function start([program = "", ...args]: readonly string[], env: NodeJS.ProcessEnv): Running {
  // A group of its own: vLLM is several processes.
  const child = spawn(program, args, { env, stdio: ["ignore", "pipe", "pipe"], detached: true });
  let log = "";
  for (const stream of [child.stdout, child.stderr]) stream.on("data", (chunk: Buffer) => (log += chunk.toString()));
  child.once("error", (error) => (log += String(error)));
  return { child, log: () => log };
}

async function answers(url: string, { child, log }: Running): Promise<void> {
  const until = performance.now() + READY_MS;
  while (performance.now() < until && child.exitCode === null && child.pid !== undefined) {
    const status = await fetch(url).then(
      (response) => response.status,
      () => 0,
    );
    if (status === 200) return;
    await delay(200);
  }
  throw new Error(`vLLM does not answer:\n${log().slice(-6000)}`);
}

async function end(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null || child.pid === undefined) return;
  const gone = new Promise((done) => child.once("exit", done));
  child.kill("SIGTERM");
  await Promise.race([gone, delay(10_000, undefined, { ref: false })]);
  try {
    process.kill(-child.pid, "SIGKILL");
  } catch {
    // All of the group had ended.
  }
}
