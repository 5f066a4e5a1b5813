// SPDX-License-Identifier: Apache-2.0
/** Where things lie: the checkout that `whet` runs from, and the data directory of a runtime. */
import { existsSync } from "node:fs";
import { join, resolve } from "node:path";

/** Root of the checkout: the folder with node_modules/, services/ and .venv/. */
export const CHECKOUT = resolve(import.meta.dirname, "..", "..", "..", "..");

/** The Python that runs trainer, engine and models tool. */
export function pythonPath(environment: NodeJS.ProcessEnv = process.env): string {
  const own = join(CHECKOUT, ".venv", "bin", "python");
  return environment["WHETSTONE_PYTHON"] ?? (existsSync(own) ? own : "python3");
}

/** Variables that every Python child needs. One OpenMP thread that sleeps: many processes share few cores. */
export function pythonEnvironment(threads = 1): Record<string, string> {
  return {
    PYTHONPATH: [join(CHECKOUT, "python-trainer", "src"), join(CHECKOUT, "proto", "gen", "python")].join(":"),
    PYTHONUNBUFFERED: "1",
    OMP_NUM_THREADS: String(threads),
    OMP_WAIT_POLICY: "PASSIVE",
  };
}

export interface DataPaths {
  readonly root: string;
  readonly lock: string;
  readonly state: string;
  readonly logs: string;
  readonly nats: string;
  readonly defaultModel: string;
  readonly runs: string;
}

/** Files and folders of a data directory. `directory` is made absolute. */
export function dataPaths(directory: string): DataPaths {
  const root = resolve(directory);
  return {
    root,
    lock: join(root, "lock"),
    state: join(root, "runtime.json"),
    logs: join(root, "logs"),
    nats: join(root, "nats"),
    defaultModel: join(root, "models", "default"),
    runs: join(root, "runs"),
  };
}

/** The data directory of a command: its option, WHETSTONE_DATA, or ".whetstone" here. */
export function dataDirectory(option: string | undefined, environment: NodeJS.ProcessEnv = process.env): string {
  return option ?? environment["WHETSTONE_DATA"] ?? ".whetstone";
}
