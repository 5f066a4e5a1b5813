// SPDX-License-Identifier: Apache-2.0
// Runs every test runner of the repository and prints the sum of what they counted, alone on the last line.
//   --cluster             also those that need a cluster (KUBECONFIG) and a container engine (DOCKER_HOST)
//   WHETSTONE_TEST_UNTIL  seconds since 1970: of these, what would not be through by then is left out, with a line
import { spawnSync } from "node:child_process";
import { existsSync, mkdirSync, readFileSync, rmSync } from "node:fs";
import { resolve } from "node:path";

interface Counts {
  passed: number;
  failed: number;
}

type Runner = (minutes?: number) => Counts;

const reports = resolve(".whetstone/test-reports");
rmSync(reports, { recursive: true, force: true });
mkdirSync(reports, { recursive: true });

const results = [vitest("unit"), pytest()];
if (process.argv.includes("--cluster")) results.push(...onCluster());
const sum = (key: keyof Counts): number => results.reduce((total, counts) => total + counts[key], 0);
console.log(`${sum("passed")} passed, ${sum("failed")} failed`);
process.exitCode = sum("failed") > 0 || sum("passed") === 0 ? 1 : 0;

/** The images first: without them nothing of the rest can be. */
function onCluster(): Counts[] {
  const built = within("make images", 20, images);
  if (built.passed === 0) return [built];
  return [
    built,
    within("make e2e", 25, e2e),
    within("make test-kube", 25, (minutes) => vitest("kube", minutes)),
    within("make test-containers", 15, (minutes) => vitest("containers", minutes)),
  ];
}

function within(name: string, minutes: number, runner: Runner): Counts {
  const left = Number(process.env["WHETSTONE_TEST_UNTIL"] || Infinity) / 60 - Date.now() / 60_000;
  const fits = left >= minutes;
  console.log(
    fits ? `--- ${name}` : `--- ${name}: LEFT OUT, it may take ${minutes} min and ${left.toFixed(0)} are left`,
  );
  return fits ? runner(minutes) : { passed: 0, failed: 0 };
}

function images(minutes?: number): Counts {
  const status = run("make", ["images"], { minutes });
  return { passed: status === 0 ? 1 : 0, failed: status === 0 ? 0 : 1 };
}

function e2e(minutes?: number): Counts {
  const file = `${reports}/e2e.json`;
  // `make images` has loaded them; what a node says it has may be minutes old.
  const env = { E2E_REPORT: file, E2E_LOAD_IMAGE: "" };
  const status = run("node", ["tests/e2e/run.ts"], { minutes, env });
  if (!existsSync(file)) return { passed: 0, failed: 1 };
  const { phases } = JSON.parse(readFileSync(file, "utf8")) as { phases: { outcome: string }[] };
  const of = (outcome: string): number => phases.filter((phase) => phase.outcome === outcome).length;
  return { passed: of("passed"), failed: Math.max(of("failed"), status === 0 ? 0 : 1) };
}

function vitest(project: string, minutes?: number): Counts {
  const file = `${reports}/vitest-${project}.json`;
  const report = ["--reporter=default", "--reporter=json", `--outputFile.json=${file}`];
  const status = run("vitest", ["run", "--project", project, ...report], { minutes });
  if (!existsSync(file)) return { passed: 0, failed: 1 };
  const counted = JSON.parse(readFileSync(file, "utf8")) as { numPassedTests: number; numFailedTests: number };
  // A file that fails to load counts as a failed suite without a failed test.
  return { passed: counted.numPassedTests, failed: Math.max(counted.numFailedTests, status === 0 ? 0 : 1) };
}

function pytest(): Counts {
  const file = `${reports}/pytest.xml`;
  const status = run("python", ["-m", "pytest", "-q", `--junitxml=${file}`], { cwd: "python-trainer" });
  if (!existsSync(file)) return { passed: 0, failed: 1 };
  const suite = /<testsuite [^>]*>/.exec(readFileSync(file, "utf8"))?.[0] ?? "";
  const of = (name: string): number => Number(new RegExp(` ${name}="(\\d+)"`).exec(suite)?.[1] ?? 0);
  const failed = Math.max(of("failures") + of("errors"), status === 0 ? 0 : 1);
  return { passed: of("tests") - of("failures") - of("errors") - of("skipped"), failed };
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
