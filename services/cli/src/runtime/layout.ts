// SPDX-License-Identifier: Apache-2.0
/** Where things lie: what `whet` runs from, and the data directory of a runtime. */
import { existsSync } from "node:fs";
import { dirname, join, resolve } from "node:path";

import type { Installation } from "./installation.ts";
import { installation } from "./installation.ts";

/** The checkout, or the installed package. */
export const INSTALLATION: Installation = installation(import.meta.dirname);

/** The Python that runs trainer, engine and models tool: the named one, that of `whet setup`, the checkout's, any. */
export function pythonPath(environment: NodeJS.ProcessEnv = process.env): string {
  const own = ownPythons(environment).find((path) => existsSync(path));
  return environment["WHETSTONE_PYTHON"] || (own ?? "python3");
}

/** Folders where programs that Python packages bring lie, best first. */
export function pythonFolders(environment: NodeJS.ProcessEnv = process.env): string[] {
  const named = environment["WHETSTONE_PYTHON"];
  return [...(named ? [named] : []), ...ownPythons(environment)].map((path) => dirname(path));
}

function ownPythons(environment: NodeJS.ProcessEnv): string[] {
  const { python } = dataPaths(dataDirectory(undefined, environment));
  return [python, ...INSTALLATION.virtualEnvironments].map((folder) => join(folder, "bin", "python"));
}

/** Compiled products that PyTorch keeps on a CPU. Each shape is about 0.7 MiB, and by itself it keeps 1,024 of them. */
const COMPILED_PRODUCTS = 64;

/** Variables that every Python child needs. One OpenMP thread that sleeps: many processes share few cores. */
export function pythonEnvironment(threads = 1): Record<string, string> {
  return {
    PYTHONPATH: INSTALLATION.pythonSources.join(":"),
    PYTHONUNBUFFERED: "1",
    OMP_NUM_THREADS: String(threads),
    OMP_WAIT_POLICY: "PASSIVE",
    LRU_CACHE_CAPACITY: String(COMPILED_PRODUCTS),
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
  /** Data folders of services that share none, with `--own-data`. */
  readonly own: string;
  /** The virtual environment that `whet setup` makes. */
  readonly python: string;
  /** Math-Verify, from `whet setup --math-verify`. */
  readonly mathVerify: string;
  /** Indexes of the corpora that were searched. */
  readonly search: string;
  /** MiniWoB++, from `whet setup --miniwob`. */
  readonly miniwob: string;
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
    own: join(root, "own"),
    python: join(root, "python"),
    mathVerify: join(root, "math-verify"),
    search: join(root, "search"),
    miniwob: join(root, "miniwob"),
  };
}

/** The data directory of a command: its option, WHETSTONE_DATA, or ".whetstone" here. */
export function dataDirectory(option: string | undefined, environment: NodeJS.ProcessEnv = process.env): string {
  return option ?? environment["WHETSTONE_DATA"] ?? ".whetstone";
}
