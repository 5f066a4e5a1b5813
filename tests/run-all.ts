// SPDX-License-Identifier: Apache-2.0
// Runs every test runner of the repository and prints the sum of what they counted, alone on the last line.
//   --cluster             also those that need a cluster (KUBECONFIG) and a container engine (DOCKER_HOST)
//   --rotate              of these the core of e2e, and the stages whose turn it is (tests/ci/stages.ts)
//   WHETSTONE_TEST_AIM    seconds since 1970: of several such stages, those which would not be through by then are left out
//   WHETSTONE_TEST_UNTIL  seconds since 1970: what would not be through by then is left out, and what runs then is ended
import { spawnSync } from "node:child_process";
import { existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { resolve } from "node:path";

import { CORE, ROTATING } from "./ci/rotating.ts";
import type { E2eStage, FileStage, Stage } from "./ci/stage.ts";
import { chooseStages, type Due, dueStages, readLastGreen } from "./ci/stages.ts";
import { type Outcome, readE2e, readPytest, readVitest } from "./support/test-reports.ts";

type Runner = (minutes: number) => Outcome;
type Env = Readonly<Record<string, string>>;

const reports = resolve(".whetstone/test-reports");
rmSync(reports, { recursive: true, force: true });
mkdirSync(reports, { recursive: true });
const NOTHING: Outcome = { passed: 0, failures: [] };
/** Said once more before the last line. */
const leftOut: string[] = [];
const green: string[] = [];

const results = [within("unit", 0, unit), within("pytest", 0, (minutes) => pytest(minutes)), within("go", 0, goTests)];
if (process.argv.includes("--cluster")) results.push(...onCluster());
writeFileSync(`${reports}/green-stages.json`, JSON.stringify(green));
const passed = results.reduce((total, outcome) => total + outcome.passed, 0);
const failures = results.flatMap((outcome) => outcome.failures);
// Once more at the end: what said it may be thousands of lines above.
for (const line of leftOut) console.log(line);
for (const failure of failures) console.log(`FAILED ${failure}`);
console.log(`${passed} passed, ${failures.length} failed`);
process.exitCode = failures.length > 0 || passed === 0 ? 1 : 0;

/** What needs no cluster, but where there is one takes turns with the other stages. */
function unit(minutes: number): Outcome {
  const stages = process.argv.includes("--cluster") ? ROTATING : [];
  const others = stages.flatMap((stage) => ("tests" in stage && stage.project === "unit" ? stage.tests : []));
  return vitest("unit", [], { minutes, env: { WHETSTONE_TEST_WITHOUT: others.join(" ") } });
}

/** The images first: without them nothing of the rest can be. */
function onCluster(): Outcome[] {
  const built = within("make images", 15, images);
  if (built.passed === 0) return [built];
  const stages = chosenStages();
  const inE2e = stages.filter((stage) => "parts" in stage);
  return [built, e2eWith(inE2e), ...stages.flatMap((stage) => ("tests" in stage ? [onItsOwn(stage)] : []))];
}

/** Core and stages share one installation: what was green is known of all of them together only. */
function e2eWith(stages: readonly E2eStage[]): Outcome {
  const all = [CORE, ...stages];
  const which = {
    E2E_PARTS: [...new Set(all.flatMap(({ parts }) => parts))].join(),
    E2E_FAULTS: all.flatMap(({ faults }) => faults ?? []).join("|"),
  };
  const minutes = all.reduce((total, stage) => total + stage.minutes, 0);
  const more = stages.flatMap(({ images = [] }) => images);
  const outcome = within(["e2e: core", ...stages.map(({ name }) => name)].join(" + "), minutes, (limit) => {
    const built = more.length > 0 ? images(limit, more) : { passed: 1, failures: [] };
    return built.passed > 0 ? e2e(limit, which) : built;
  });
  noteGreen(stages, outcome);
  return outcome;
}

function onItsOwn(stage: FileStage): Outcome {
  const { name, project, tests, environment: env = {} } = stage;
  const outcome = within(name, stage.minutes, (minutes) => {
    const lack = setUp(stage, minutes);
    if (lack !== undefined) return { passed: 0, failures: [lack] };
    return project === "pytest"
      ? pytest(minutes, tests, { name, env })
      : project === "pytest with verl"
        ? pytestWithVerl(minutes, tests, { name, env })
        : vitest(project, tests, { minutes, name, env });
  });
  if (stage.cleanup) run(stage.cleanup[0], stage.cleanup.slice(1), { minutes: 10 });
  noteGreen([stage], outcome);
  return outcome;
}

/** It is a part of the stage: where it fails the stage has failed, and is not left out. @returns what failed */
function setUp({ name, setup = [] }: FileStage, minutes: number): string | undefined {
  for (const [command, ...args] of setup) {
    const status = run(command, args, { minutes });
    if (status !== 0) return `${name}: ${[command, ...args].join(" ")} ended with ${status}`;
  }
  return undefined;
}

function noteGreen(stages: readonly Stage[], { passed, failures }: Outcome): void {
  if (failures.length === 0 && passed > 0) green.push(...stages.map(({ name }) => name));
}

/** Says why each is run, or is not. */
function chosenStages(): Stage[] {
  const due = process.argv.includes("--rotate") ? dueToday() : everyStage();
  const [toAim, toLimit] = [minutesUntil("AIM") - CORE.minutes, minutesUntil("UNTIL") - CORE.minutes];
  const chosen = chooseStages(due, Math.min(toAim, toLimit), toLimit);
  for (const { stage, because, lastGreen } of due) {
    const last = lastGreen ? `last green ${lastGreen.date} at ${lastGreen.commit}` : "never recorded as green";
    if (because === undefined) leftOut.push(`NOT RUN ${stage.name}: not its turn, ${last}`);
    else if (chosen.includes(stage)) console.log(`--- ${stage.name}: is run, ${because}`);
    else leftOut.push(`NOT RUN ${stage.name}: no time for its ${stage.minutes} min, though ${because}; ${last}`);
  }
  return chosen;
}

function everyStage(): Due[] {
  const because = "all of them are to run";
  return ROTATING.map((stage, daysLeft) => ({ stage, because, lastGreen: undefined, daysLeft }));
}

function dueToday(): Due[] {
  const recorded = readLastGreen(readFileSync("docs/STATUS.md", "utf8"));
  return dueStages(Math.floor(Date.now() / 86_400_000), recorded, changedSince);
}

/** Infinity: no such time is set. */
function minutesUntil(name: "AIM" | "UNTIL"): number {
  return Number(process.env[`WHETSTONE_TEST_${name}`] || Infinity) / 60 - Date.now() / 60_000;
}

function changedSince(commit: string): string[] | undefined {
  const { status, stdout } = spawnSync("git", ["diff", "--name-only", commit, "HEAD"], { encoding: "utf8" });
  return status === 0 ? stdout.split("\n").filter(Boolean) : undefined;
}

/** @param minutes  what it takes when all is well: it is ended after three times that; 0: it has no limit of its own */
function within(name: string, minutes: number, runner: Runner): Outcome {
  const left = minutesUntil("UNTIL");
  const startedAt = Date.now();
  console.log(`--- ${name}`);
  if (left < minutes) {
    leftOut.push(`NOT RUN ${name}: it may take ${minutes} min and ${left.toFixed(0)} were left`);
    return NOTHING;
  }
  const outcome = runner(Math.min(3 * minutes || Infinity, left));
  console.log(`--- ${name}: ${((Date.now() - startedAt) / 60_000).toFixed(1)} min`);
  return outcome;
}

/** @param which  by name; undefined: those that are built by default */
function images(minutes: number, which?: readonly string[]): Outcome {
  const args = ["images", ...(which === undefined ? [] : [`IMAGES=${which.join(" ")}`])];
  const status = run("make", args, { minutes });
  return status === 0 ? { passed: 1, failures: [] } : { passed: 0, failures: [`make ${args.join(" ")}`] };
}

function e2e(minutes: number, which: Env): Outcome {
  const file = `${reports}/e2e.json`;
  // `make images` has loaded them; what a node says it has may be minutes old.
  const env = { E2E_REPORT: file, E2E_LOAD_IMAGE: "", ...which };
  const status = run("node", ["tests/e2e/run.ts"], { minutes, env });
  return outcome("make e2e", status, file, readE2e);
}

function vitest(
  project: string,
  tests: readonly string[],
  how: { minutes: number; name?: string; env?: Env },
): Outcome {
  const file = `${reports}/vitest-${fileName(how.name ?? project)}.json`;
  const report = ["--reporter=default", "--reporter=json", `--outputFile.json=${file}`];
  const status = run("vitest", ["run", "--project", project, ...tests, ...report], how);
  return outcome(`vitest --project ${project}`, status, file, readVitest);
}

function pytest(minutes: number, tests: readonly string[] = [], how: { name?: string; env?: Env } = {}): Outcome {
  const { name = "pytest", env = {} } = how;
  const file = `${reports}/${fileName(name)}.xml`;
  const args = ["-m", "pytest", "-q", `--junitxml=${file}`, ...tests.map((path) => resolve(path))];
  return outcome(name, run("python", args, { cwd: "python-trainer", minutes, env }), file, readPytest);
}

/** Its set-up is a part of it: where that fails the stage has failed. */
function pytestWithVerl(minutes: number, tests: readonly string[], how: { name: string; env: Env }): Outcome {
  const setup = run("make", ["setup-verl"], { minutes });
  if (setup !== 0) return { passed: 0, failures: [`${how.name}: make setup-verl ended with ${setup}`] };
  const path = `${resolve(".whetstone/verl/bin")}:${process.env["PATH"]}`;
  return pytest(minutes, tests, { ...how, env: { ...how.env, PATH: path } });
}

/** Of the sandboxes' daemon, the one part in Go: where there is no Go it is left out. */
function goTests(): Outcome {
  const cwd = "services/sandbox-daemon";
  if (!existsSync(cwd)) return NOTHING;
  const go = ["go", "/usr/local/go/bin/go"].find((each) => spawnSync(each, ["version"]).status === 0);
  if (go === undefined) {
    leftOut.push("NOT RUN go test of services/sandbox-daemon: there is no Go");
    return NOTHING;
  }
  const { stdout, stderr, status } = spawnSync(go, ["test", "-v", "./..."], {
    cwd,
    encoding: "utf8",
  });
  const failures = [...stdout.matchAll(/^--- FAIL: (\S+)/gmu)].map(([, name]) => `go test: ${name}`);
  if (status !== 0) console.log(stdout + stderr);
  if (status !== 0 && failures.length === 0) failures.push("go test");
  return { passed: [...stdout.matchAll(/^--- PASS: /gmu)].length, failures };
}

function fileName(name: string): string {
  return name.replaceAll(/\W+/g, "-");
}

/** A runner that ends badly has failed, whatever its report says. */
function outcome(name: string, status: number, file: string, read: (report: string) => Outcome): Outcome {
  if (!existsSync(file)) return { passed: 0, failures: [`${name}: ended with ${status} and without a report`] };
  const { passed, failures } = read(readFileSync(file, "utf8"));
  return { passed, failures: status === 0 || failures.length > 0 ? failures : [`${name}: ended with ${status}`] };
}

interface RunOptions {
  readonly cwd?: string;
  readonly minutes: number;
  readonly env?: Env;
}

/** @returns the exit status; 1 when it took longer than `minutes` and was ended */
function run(command: string, args: string[], { cwd = ".", minutes, env = {} }: RunOptions): number {
  const all = { ...process.env, OMP_NUM_THREADS: "1", OMP_WAIT_POLICY: "PASSIVE", ...env };
  const limit = Number.isFinite(minutes) ? { timeout: Math.ceil(minutes * 60_000) } : {};
  return spawnSync(command, args, { cwd, stdio: "inherit", env: all, ...limit }).status ?? 1;
}
