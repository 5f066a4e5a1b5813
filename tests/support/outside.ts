// SPDX-License-Identifier: Apache-2.0
// A folder outside the repository, as a user has it: only packed tarballs, npm, and the Node that runs the tests.
import { execFileSync, spawnSync } from "node:child_process";
import { mkdtempSync, readdirSync, realpathSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { delimiter, dirname, join, resolve } from "node:path";

const ROOT = resolve(import.meta.dirname, "../..");
const COMMAND_MS = 240_000;

export interface Outside extends Disposable {
  readonly folder: string;
  /** Runs a program to its end, by its name on the user's PATH. */
  run(folder: string, program: string, ...args: string[]): { status: number; stdout: string; output: string };
  /** Command lines of processes that name this folder. */
  leftRunning(): string[];
}

export function openOutside(): Outside {
  const folder = realpathSync(mkdtempSync(join(tmpdir(), "whetstone-outside-")));
  return {
    folder,
    run: (cwd, program, ...args) => {
      const options = {
        cwd,
        encoding: "utf8",
        env: userEnvironment(),
        maxBuffer: 2 ** 28,
        timeout: COMMAND_MS,
      } as const;
      const { status, stdout, stderr, error } = spawnSync(program, args, options);
      return { status: error ? 1 : (status ?? 1), stdout, output: `${stdout}${stderr}${error?.message ?? ""}` };
    },
    leftRunning: () =>
      execFileSync("ps", ["-eo", "args"], { encoding: "utf8" })
        .split("\n")
        .filter((line) => line.includes(folder)),
    [Symbol.dispose]: () => {
      if (!process.env["WHETSTONE_TEST_KEEP"]) rmSync(folder, { recursive: true, force: true });
    },
  };
}

/** Packs SDK and command line; answers the tarballs. */
export function packInto(folder: string): string[] {
  execFileSync(process.execPath, [join(ROOT, "deploy/pack/pack.ts"), folder], {
    stdio: ["ignore", "ignore", "inherit"],
  });
  return readdirSync(folder).map((name) => join(folder, name));
}

/** Nothing of the workspace: not its programs, not the variables of the npm that runs the tests. Authorities stay: without them npm reaches nothing behind a proxy. */
function userEnvironment(): NodeJS.ProcessEnv {
  const kept = Object.entries(process.env).filter(
    ([name]) => !/^(npm_|WHETSTONE_|VITEST|NODE_(?!EXTRA_CA_CERTS$))/.test(name),
  );
  const foreign = (process.env["PATH"] ?? "").split(delimiter).filter((path) => !path.startsWith(ROOT));
  return {
    ...Object.fromEntries(kept),
    PATH: [dirname(process.execPath), ...foreign].join(delimiter),
    WHETSTONE_PYTHON: process.env["WHETSTONE_PYTHON"] ?? join(ROOT, ".venv/bin/python"),
    npm_config_prefer_offline: "true",
    npm_config_update_notifier: "false",
  };
}
