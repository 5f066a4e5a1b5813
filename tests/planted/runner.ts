// SPDX-License-Identifier: Apache-2.0
// Runs test files, or single tests of them, in a copy of the repository.
import { spawn } from "node:child_process";
import { join } from "node:path";
import type { Edit } from "./edit.ts";

/** What is run: a test file, and part of the names of those of its tests that are meant. */
export type Chosen = Pick<Edit, "test" | "only">;

export interface Outcome {
  /** `broken`: it ended without a test that failed, for an import that is not there, say, or because none was found. */
  readonly result: "passed" | "failed" | "broken";
  /** The first thing that it said of a failure. */
  readonly why: string;
  /** All that it said. */
  readonly output: string;
}

const LIMIT_MS = 180_000;
/** Of one test: pytest's own limit says which it was. */
const PYTEST_LIMIT_S = 60;
const PYTHON = "python-trainer";

/** Runs tests of one runner. A test that hangs has failed. */
export async function runTests(root: string, chosen: readonly Chosen[]): Promise<Outcome> {
  const { code, output, timedOut } = await run(root, commandOf(chosen));
  const failed = timedOut || /^\s*Tests .*\d+ failed|\d+ failed.* in \d/m.test(output);
  const passed = code === 0 && /^\s*Tests .*\d+ passed|\d+ passed.* in \d/m.test(output);
  return { result: passed ? "passed" : failed ? "failed" : "broken", why: whyOf(output, timedOut), output };
}

/** The first thing that a runner says of a failure. */
function whyOf(output: string, timedOut: boolean): string {
  if (timedOut) return `not at its end after ${LIMIT_MS / 1000} s`;
  return /^(?:E {3}|\w*Error: )(.+)$/m.exec(output)?.[1]?.trim().slice(0, 120) ?? "";
}

interface Command {
  readonly program: string;
  readonly args: readonly string[];
  readonly folder: string;
}

function commandOf(chosen: readonly Chosen[]): Command {
  const [files, names] = [new Set(chosen.map(({ test }) => test)), new Set(chosen.flatMap(({ only }) => only ?? []))];
  const first = chosen[0]?.test ?? "";
  if (first.endsWith(".py")) {
    // The default `-q` of the project would leave out the last line.
    const options = ["-v", "-x", "-rf", "-p", "no:cacheprovider", `--timeout=${PYTEST_LIMIT_S}`];
    const inside = [...files].map((file) => file.slice(PYTHON.length + 1));
    const some = names.size > 0 ? ["-k", [...names].join(" or ")] : [];
    return { program: "python", args: ["-m", "pytest", ...options, ...some, ...inside], folder: PYTHON };
  }
  const project = /\.(kube|containers)\.test\.ts$/.exec(first)?.[1] ?? "unit";
  const some = names.size > 0 ? ["-t", [...names].join("|")] : [];
  return { program: "vitest", args: ["run", "--bail", "1", "--project", project, ...some, ...files], folder: "." };
}

const ROOT = join(import.meta.dirname, "../..");
/** The repository's own tools come first. */
export const TOOLS_PATH = `${join(ROOT, ".venv/bin")}:${join(ROOT, "node_modules/.bin")}:${process.env["PATH"]}`;

interface Ended {
  readonly code: number | null;
  readonly output: string;
  readonly timedOut: boolean;
}

function run(root: string, { program, args, folder }: Command): Promise<Ended> {
  const { VITEST, VITEST_POOL_ID, VITEST_WORKER_ID, NODE_ENV, ...env } = process.env;
  void [VITEST, VITEST_POOL_ID, VITEST_WORKER_ID, NODE_ENV]; // They would make the runner take itself for a worker of this one.
  const child = spawn(program, args, {
    cwd: join(root, folder),
    // Byte code of an edited file could be taken for that of the file before, when both are of one second and length.
    env: { ...env, PATH: TOOLS_PATH, NO_COLOR: "1", PYTHONDONTWRITEBYTECODE: "1", OMP_NUM_THREADS: "1" },
    // A group of its own: a test that hangs is ended with all that it started.
    detached: true,
  });
  let timedOut = false;
  const end = (): void => {
    if (child.pid !== undefined && child.exitCode === null) process.kill(-child.pid, "SIGKILL");
  };
  const limit = setTimeout(() => {
    timedOut = true;
    end();
  }, LIMIT_MS);
  process.once("exit", end);
  let output = "";
  for (const stream of [child.stdout, child.stderr]) stream.on("data", (chunk: Buffer) => (output += chunk.toString()));
  return new Promise((resolve, reject) => {
    child.on("error", reject);
    child.on("close", (code) => {
      clearTimeout(limit);
      process.off("exit", end);
      resolve({ code, output, timedOut });
    });
  });
}
