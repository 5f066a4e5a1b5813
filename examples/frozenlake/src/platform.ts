// SPDX-License-Identifier: Apache-2.0
import { type ChildProcess, spawn, spawnSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { JobService } from "@whetstone/proto/jobs/v1/jobs";
import { createClient, type RpcClient } from "@whetstone/rpc";

const WHET = resolve(import.meta.dirname, "../../../services/cli/bin/whet.mjs");
/** Set-up is done by then; the services themselves need under 20 s. */
const READY_MS = 120_000;

/** A running local runtime: `whet up` as a child, so that Ctrl-C and our end stop it too. */
export class Platform implements AsyncDisposable {
  readonly jobs: RpcClient<typeof JobService>;
  readonly data: string;
  readonly #child: ChildProcess;

  private constructor(data: string, child: ChildProcess, address: string) {
    this.data = data;
    this.#child = child;
    this.jobs = createClient(JobService, address, { deadlineMs: 60_000 });
  }

  static async start(data: string, modelPath: string, trainerThreads: number, ...more: string[]): Promise<Platform> {
    const args = [
      WHET,
      "up",
      "--data",
      data,
      "--model",
      modelPath,
      "--trainer-threads",
      String(trainerThreads),
      ...more,
    ];
    const child = spawn(process.execPath, args, { stdio: ["ignore", "ignore", "inherit"] });
    stopWith(child);
    const address = await controllerAddress(join(data, "runtime.json"), child);
    return new Platform(data, child, address);
  }

  /** A `whet` command against this runtime that prints JSON. */
  whet(...args: string[]): unknown {
    return JSON.parse(whet(...args, "--data", this.data, "--json"));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.jobs[Symbol.asyncDispose]();
    if (this.#child.exitCode !== null) return;
    const gone = new Promise((done) => this.#child.once("exit", done));
    this.#child.kill("SIGTERM");
    await gone;
  }
}

/** Whatever ends this program ends the services too. */
function stopWith(child: ChildProcess): void {
  for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"] as const) {
    process.once(signal, () => {
      child.once("exit", () => process.exit(130));
      child.kill("SIGTERM");
    });
  }
  process.once("exit", () => child.kill("SIGTERM"));
}

/** Runs a `whet` command to its end. @throws Error with what it said when it fails. */
export function whet(...args: string[]): string {
  const { status, stdout, stderr } = spawnSync(process.execPath, [WHET, ...args], {
    encoding: "utf8",
    maxBuffer: 2 ** 28,
  });
  if (status !== 0) throw new Error(`whet ${args.join(" ")}: exit code ${status}\n${stdout}${stderr}`);
  return stdout;
}

interface RuntimeFile {
  phase: string;
  pid: number;
  services: { name: string; ports: Record<string, number> }[];
}

async function controllerAddress(path: string, child: ChildProcess): Promise<string> {
  const end = performance.now() + READY_MS;
  while (performance.now() < end) {
    if (child.exitCode !== null) throw new Error(`whet up ended with exit code ${child.exitCode}; see above`);
    const state = readRuntime(path);
    const port = state?.services.find((service) => service.name === "controller")?.ports["grpc"];
    if (state?.phase === "ready" && state.pid === child.pid && port !== undefined) return `127.0.0.1:${port}`;
    await delay(100);
  }
  child.kill("SIGTERM");
  throw new Error(`the services were not ready within ${READY_MS / 1000} s; see the logs beside ${path}`);
}

function readRuntime(path: string): RuntimeFile | undefined {
  try {
    return JSON.parse(readFileSync(path, "utf8")) as RuntimeFile;
  } catch {
    return undefined; // Not written yet.
  }
}
