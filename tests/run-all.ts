// SPDX-License-Identifier: Apache-2.0
// Runs every test runner of the repository and prints the sum of what they counted, alone on the last line.
//   --cluster             also those that need a cluster (KUBECONFIG) and a container engine (DOCKER_HOST)
//   WHETSTONE_TEST_UNTIL  seconds since 1970: of these, what would not be through by then is left out, with a line
import { spawnSync } from "node:child_process";
import { existsSync, mkdirSync, readFileSync, rmSync } from "node:fs";
import { resolve } from "node:path";

import { type Outcome, readE2e, readPytest, readVitest } from "./support/test-reports.ts";

type Runner = (minutes?: number) => Outcome;

const reports = resolve(".whetstone/test-reports");
rmSync(reports, { recursive: true, force: true });
mkdirSync(reports, { recursive: true });

const results = [vitest("unit"), pytest()];
if (process.argv.includes("--cluster")) results.push(...onCluster());
const passed = results.reduce((total, outcome) => total + outcome.passed, 0);
const failures = results.flatMap((outcome) => outcome.failures);
// Once more at the end: what said it may be thousands of lines above.
for (const failure of failures) console.log(`FAILED ${failure}`);
console.log(`${passed} passed, ${failures.length} failed`);
process.exitCode = failures.length > 0 || passed === 0 ? 1 : 0;

/** The images first: without them nothing of the rest can be. */
function onCluster(): Outcome[] {
  const built = within("make images", 20, images);
  if (built.passed === 0) return [built];
  return [
    built,
    within("make e2e", 25, e2e),
    within("make test-kube", 25, (minutes) => vitest("kube", minutes)),
    within("make test-containers", 15, (minutes) => vitest("containers", minutes)),
  ];
}

function within(name: string, minutes: number, runner: Runner): Outcome {
  const left = Number(process.env["WHETSTONE_TEST_UNTIL"] || Infinity) / 60 - Date.now() / 60_000;
  const fits = left >= minutes;
  console.log(
    fits ? `--- ${name}` : `--- ${name}: LEFT OUT, it may take ${minutes} min and ${left.toFixed(0)} are left`,
  );
  return fits ? runner(minutes) : { passed: 0, failures: [] };
}

function images(minutes?: number): Outcome {
  const status = run("make", ["images"], { minutes });
  return status === 0 ? { passed: 1, failures: [] } : { passed: 0, failures: ["make images"] };
}

function e2e(minutes?: number): Outcome {
  const file = `${reports}/e2e.json`;
  // `make images` has loaded them; what a node says it has may be minutes old.
  const env = { E2E_REPORT: file, E2E_LOAD_IMAGE: "" };
  const status = run("node", ["tests/e2e/run.ts"], { minutes, env });
  return outcome("make e2e", status, file, readE2e);
}

function vitest(project: string, minutes?: number): Outcome {
  const file = `${reports}/vitest-${project}.json`;
  const report = ["--reporter=default", "--reporter=json", `--outputFile.json=${file}`];
  const status = run("vitest", ["run", "--project", project, ...report], { minutes });
  return outcome(`vitest --project ${project}`, status, file, readVitest);
}

function pytest(): Outcome {
  const file = `${reports}/pytest.xml`;
  const status = run("python", ["-m", "pytest", "-q", `--junitxml=${file}`], { cwd: "python-trainer" });
  return outcome("pytest", status, file, readPytest);
}

/** A runner that ends badly has failed, whatever its report says. */
function outcome(name: string, status: number, file: string, read: (report: string) => Outcome): Outcome {
  if (!existsSync(file)) return { passed: 0, failures: [`${name}: ended with ${status} and without a report`] };
  const { passed, failures } = read(readFileSync(file, "utf8"));
  return { passed, failures: status === 0 || failures.length > 0 ? failures : [`${name}: ended with ${status}`] };
}

interface RunOptions {
  readonly cwd?: string;
  readonly minutes?: number | undefined;
  readonly env?: Record<string, string>;
}

/** @returns the exit status; 1 when it took longer than `minutes` and was ended */
function run(command: string, args: string[], { cwd = ".", minutes, env = {} }: RunOptions = {}): number {
  const all = { ...process.env, OMP_NUM_THREADS: "1", OMP_WAIT_POLICY: "PASSIVE", ...env };
  const limit = minutes === undefined ? {} : { timeout: minutes * 60_000 };
  return spawnSync(command, args, { cwd, stdio: "inherit", env: all, ...limit }).status ?? 1;
}
