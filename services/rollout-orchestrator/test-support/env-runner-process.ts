// SPDX-License-Identifier: Apache-2.0
import { type ChildProcess, spawn } from "node:child_process";
import { join } from "node:path";

export interface EnvRunnerProcess extends AsyncDisposable {
  readonly address: string;
  readonly pid: number;
  kill(): Promise<void>;
}

/** A real env-runner in its own process: services do not import each other, not even in tests. */
export async function startEnvRunner(
  options: { port?: number; nodeArgs?: string[]; env?: Record<string, string> } = {},
): Promise<EnvRunnerProcess> {
  const main = join(import.meta.dirname, "../../env-runner/src/main.ts");
  const child = spawn(process.execPath, [...(options.nodeArgs ?? []), main], {
    stdio: ["ignore", "ignore", "pipe"],
    env: { PATH: process.env["PATH"] ?? "", WHETSTONE_GRPC_PORT: String(options.port ?? 0), ...options.env },
  });
  const address = await addressOf(child);
  const kill = (): Promise<void> => stop(child, "SIGKILL");
  return { address, pid: child.pid as number, kill, [Symbol.asyncDispose]: () => stop(child, "SIGTERM") };
}

function addressOf(child: ChildProcess): Promise<string> {
  return new Promise((resolve, reject) => {
    let log = "";
    child.stderr?.on("data", (chunk: Buffer) => {
      log += chunk.toString();
      const found = /"address":"([^"]+)".*"ready"/.exec(log);
      if (found) resolve(found[1] as string);
    });
    child.once("exit", (code) => {
      reject(new Error(`env-runner exited with ${code}: ${log}`));
    });
  });
}

function stop(child: ChildProcess, signal: NodeJS.Signals): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return Promise.resolve();
  return new Promise((resolve) => {
    child.once("exit", () => {
      resolve();
    });
    child.kill(signal);
  });
}
