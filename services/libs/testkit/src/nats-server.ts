// SPDX-License-Identifier: Apache-2.0
import { type ChildProcess, spawn } from "node:child_process";
import { accessSync, constants, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { delimiter, join } from "node:path";
import { dieWithUs, sleep, WhetstoneError } from "@whetstone/core";
import { connectNats, type Nats } from "@whetstone/messaging";
import { type Logger, silentLogger } from "@whetstone/telemetry";
import { freePort } from "./free-port.ts";

export interface NatsServerOptions {
  /** Added to the configuration file, in the server's own syntax. */
  readonly configuration?: string;
  /** Default: a folder of its own. */
  readonly storeDir?: string;
}

/** A real nats-server with JetStream, on its own port and its own store. */
export interface TestNats extends AsyncDisposable {
  readonly url: string;
  readonly port: number;
  /** URL of its monitoring port. */
  readonly monitor: string;
  readonly storeDir: string;
  /** The caller disposes it. */
  connect(options?: { readonly name?: string; readonly logger?: Logger }): Promise<Nats>;
  /** SIGKILL, as a crash would. */
  kill(): Promise<void>;
  /** Kills it if it runs, and starts it on the same port and store. */
  restart(): Promise<void>;
}

const START_MS = 10_000;

export async function startNats(options: NatsServerOptions = {}): Promise<TestNats> {
  const binary = findNatsServer();
  const directory = mkdtempSync(join(tmpdir(), "whetstone-nats-"));
  const port = await freePort();
  const monitorPort = await freePort();
  const storeDir = options.storeDir ?? join(directory, "store");
  const configuration = writeConfiguration(directory, { port, monitorPort, storeDir }, options.configuration ?? "");
  let server = await launch(binary, configuration, port);
  const url = `nats://127.0.0.1:${port}`;
  const kill = (): Promise<void> => stop(server, "SIGKILL");
  return {
    url,
    port,
    monitor: `http://127.0.0.1:${monitorPort}`,
    storeDir,
    connect: ({ name = "test", logger = silentLogger } = {}) => connectNats({ servers: url, name, logger }),
    kill,
    async restart() {
      await kill();
      server = await launch(binary, configuration, port);
    },
    async [Symbol.asyncDispose]() {
      await kill();
      rmSync(directory, { recursive: true, force: true, maxRetries: 5 });
    },
  };
}

/** WHETSTONE_NATS_SERVER, else the PATH, else the repository's virtual environment. */
export function findNatsServer(): string {
  const fromPath = (process.env["PATH"] ?? "").split(delimiter).map((folder) => join(folder, "nats-server"));
  const fromVenv = join(import.meta.dirname, "../../../../.venv/bin/nats-server");
  const candidates = [process.env["WHETSTONE_NATS_SERVER"] ?? "", ...fromPath, fromVenv];
  const found = candidates.find((path) => path !== "" && isExecutable(path));
  if (found !== undefined) return found;
  throw new WhetstoneError("NOT_FOUND", "no nats-server: set WHETSTONE_NATS_SERVER or put it on the PATH");
}

function isExecutable(path: string): boolean {
  try {
    accessSync(path, constants.X_OK);
    return true;
  } catch {
    return false;
  }
}

interface Places {
  readonly port: number;
  readonly monitorPort: number;
  readonly storeDir: string;
}

function writeConfiguration(directory: string, { port, monitorPort, storeDir }: Places, extra: string): string {
  const path = join(directory, "nats.conf");
  const lines = [
    `listen: "127.0.0.1:${port}"`,
    `http: "127.0.0.1:${monitorPort}"`,
    `max_payload: 8MB`,
    `jetstream { store_dir: "${storeDir}", max_file_store: 64GB }`,
    extra,
  ];
  writeFileSync(path, `${lines.join("\n")}\n`);
  return path;
}

async function launch(binary: string, configuration: string, port: number): Promise<ChildProcess> {
  // A test run that is killed, or whose set-up takes too long, leaves no server behind.
  const [command, ...args] = dieWithUs("KILL", binary, "-c", configuration);
  const child = spawn(command, args, { stdio: ["ignore", "ignore", "pipe"] });
  let log = "";
  const ready = Promise.withResolvers<void>();
  child.stderr.on("data", (chunk: Buffer) => {
    log = (log + chunk.toString()).slice(-20_000);
    if (log.includes("Server is ready")) ready.resolve();
  });
  child.once("error", ready.reject);
  child.once("exit", (code) => {
    ready.reject(new WhetstoneError("INTERNAL", `nats-server on port ${port} exited with ${code}:\n${log}`));
  });
  const timer = new AbortController();
  const late = sleep(START_MS, timer.signal).then(() => {
    throw new WhetstoneError("DEADLINE_EXCEEDED", `nats-server did not start within ${START_MS} ms:\n${log}`);
  });
  try {
    await Promise.race([ready.promise, late]);
    return child;
  } catch (error) {
    await stop(child, "SIGKILL");
    throw error;
  } finally {
    timer.abort();
    late.catch(() => undefined);
  }
}

function stop(child: ChildProcess, signal: NodeJS.Signals): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null || child.pid === undefined) return Promise.resolve();
  return new Promise((resolve) => {
    child.once("exit", () => {
      resolve();
    });
    child.kill(signal);
  });
}
