// SPDX-License-Identifier: Apache-2.0
// Runs every test runner of the repository and prints the sum of what they counted, alone on the last line.
//   --cluster             also those that need a cluster (KUBECONFIG) and a container engine (DOCKER_HOST)
//   --rotate              of these the core of e2e, and the stages whose turn it is (tests/ci/stages.ts)
//   WHETSTONE_TEST_UNTIL  seconds since 1970: of these, what would not be through by then is left out, with a line
import { spawnSync } from "node:child_process";
import { existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { resolve } from "node:path";

import { type Due, dueStages, readLastGreen, ROTATING, type StageName } from "./ci/stages.ts";
import { type Outcome, readE2e, readPytest, readVitest } from "./support/test-reports.ts";

type Runner = (minutes?: number) => Outcome;

/** What is always done of the end-to-end tests: it trains, and survives one fault of each kind. */
const CORE = {
  E2E_PARTS: "chart,train,apply,faults",
  E2E_FAULTS: "^(pod deleted: controller|kill -9: engine|kill -9: trainer|NATS restarted|leader deleted)$",
};
const CORE_MINUTES = 15;

const reports = resolve(".whetstone/test-reports");
rmSync(reports, { recursive: true, force: true });
mkdirSync(reports, { recursive: true });
const NOTHING: Outcome = { passed: 0, failures: [] };
/** Said once more before the last line. */
const leftOut: string[] = [];
const green: StageName[] = [];

const results = [within("unit", 0, () => vitest("unit")), within("pytest", 0, () => pytest())];
if (process.argv.includes("--cluster")) results.push(...onCluster(stages()));
writeFileSync(`${reports}/green-stages.json`, JSON.stringify(green));
const passed = results.reduce((total, outcome) => total + outcome.passed, 0);
const failures = results.flatMap((outcome) => outcome.failures);
// Once more at the end: what said it may be thousands of lines above.
for (const line of leftOut) console.log(line);
for (const failure of failures) console.log(`FAILED ${failure}`);
console.log(`${passed} passed, ${failures.length} failed`);
process.exitCode = failures.length > 0 || passed === 0 ? 1 : 0;

/** The images first: without them nothing of the rest can be. */
function onCluster(due: readonly Due[]): Outcome[] {
  const built = within("make images", 25, images);
  if (built.passed === 0) return [built];
  const whole = stage("e2e: every part and fault", due, (minutes) => e2e(minutes, {}));
  return [
    built,
    whole ?? within("e2e: core", CORE_MINUTES, (minutes) => e2e(minutes, CORE)),
    stage("kube", due, (minutes) => vitest("kube", minutes)) ?? NOTHING,
    stage("containers", due, (minutes) => vitest("containers", minutes)) ?? NOTHING,
  ];
}

function stages(): Due[] {
  if (!process.argv.includes("--rotate"))
    return ROTATING.map(({ name }) => ({ name, because: "all of them are to run", lastGreen: undefined }));
  const recorded = readLastGreen(readFileSync("docs/STATUS.md", "utf8"));
  return dueStages(Math.floor(Date.now() / 86_400_000), recorded, changedSince);
}

function changedSince(commit: string): string[] | undefined {
  const { status, stdout } = spawnSync("git", ["diff", "--name-only", commit, "HEAD"], { encoding: "utf8" });
  return status === 0 ? stdout.split("\n").filter(Boolean) : undefined;
}

/** @returns undefined when it is not the stage's turn, or there is no time for it */
function stage(name: StageName, due: readonly Due[], runner: Runner): Outcome | undefined {
  const { because, lastGreen } = due.find((one) => one.name === name) as Due;
  const last = lastGreen ? `last green ${lastGreen.date} at ${lastGreen.commit}` : "never recorded as green";
  if (because === undefined) {
    leftOut.push(`NOT RUN ${name}: not its turn, ${last}`);
    return undefined;
  }
  console.log(`--- ${name}: ${because}`);
  const { minutes } = ROTATING.find((one) => one.name === name) as (typeof ROTATING)[number];
  const outcome = within(name, minutes, runner);
  if (outcome === NOTHING) return undefined;
  if (outcome.failures.length === 0 && outcome.passed > 0) green.push(name);
  return outcome;
}

function within(name: string, minutes: number, runner: Runner): Outcome {
  const left = Number(process.env["WHETSTONE_TEST_UNTIL"] || Infinity) / 60 - Date.now() / 60_000;
  const startedAt = Date.now();
  console.log(`--- ${name}`);
  if (left < minutes) {
    leftOut.push(`NOT RUN ${name}: it may take ${minutes} min and ${left.toFixed(0)} were left`);
    return NOTHING;
  }
  const outcome = runner(minutes);
  console.log(`--- ${name}: ${((Date.now() - startedAt) / 60_000).toFixed(1)} min`);
  return outcome;
}

function images(minutes?: number): Outcome {
  const status = run("make", ["images"], { minutes });
  return status === 0 ? { passed: 1, failures: [] } : { passed: 0, failures: ["make images"] };
}

function e2e(minutes: number | undefined, which: Record<string, string>): Outcome {
  const file = `${reports}/e2e.json`;
  // `make images` has loaded them; what a node says it has may be minutes old.
  const env = { E2E_REPORT: file, E2E_LOAD_IMAGE: "", ...which };
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
