// SPDX-License-Identifier: Apache-2.0
import { spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync } from "node:fs";
import { join } from "node:path";
import { createInterface } from "node:readline";

const ROOT = join(import.meta.dirname, "../../..");

export interface PythonRunner extends AsyncDisposable {
  readonly address: string;
  close(): Promise<void>;
}

/** `python -m whetstone_env …` on a free port, ready. */
export async function startPythonRunner(...args: string[]): Promise<PythonRunner> {
  const env = {
    ...process.env,
    PYTHONPATH: ["python-trainer/src", "proto/gen/python"].map((path) => join(ROOT, path)).join(":"),
    OMP_NUM_THREADS: "1",
  };
  const own = join(ROOT, ".venv/bin/python");
  const command = ["-m", "whetstone_env", "--listen", "127.0.0.1:0", ...args];
  const child = spawn(existsSync(own) ? own : "python3", command, { env, stdio: ["ignore", "ignore", "pipe"] });
  const exited = once(child, "exit");
  const close = async (): Promise<void> => {
    if (child.exitCode === null) child.kill("SIGTERM");
    await exited;
  };
  const said: string[] = [];
  const port = await new Promise<number>((resolve, reject) => {
    createInterface({ input: child.stderr }).on("line", (line) => {
      said.push(line);
      if (line.includes('"event": "ready"')) resolve((JSON.parse(line) as { port: number }).port);
    });
    void exited.then(() => {
      reject(new Error(`whetstone_env ended: ${said.join("\n")}`));
    });
  });
  return { address: `127.0.0.1:${port}`, close, [Symbol.asyncDispose]: close };
}
