// SPDX-License-Identifier: Apache-2.0
// Runs every test runner of the repository and prints the sum of what they counted, alone on the last line.
import { spawnSync } from "node:child_process";
import { existsSync, mkdirSync, readFileSync, rmSync } from "node:fs";

interface Counts {
  passed: number;
  failed: number;
}

const reports = ".whetstone/test-reports";
rmSync(reports, { recursive: true, force: true });
mkdirSync(reports, { recursive: true });

const results = [vitest(), pytest()];
const sum = (key: keyof Counts): number => results.reduce((total, counts) => total + counts[key], 0);
console.log(`${sum("passed")} passed, ${sum("failed")} failed`);
process.exitCode = sum("failed") > 0 || sum("passed") === 0 ? 1 : 0;

function vitest(): Counts {
  const file = `${reports}/vitest.json`;
  const status = run("vitest", ["run", "--reporter=default", "--reporter=json", `--outputFile.json=${file}`], ".");
  if (!existsSync(file)) return { passed: 0, failed: 1 };
  const report = JSON.parse(readFileSync(file, "utf8")) as {
    numPassedTests: number;
    numFailedTests: number;
    numFailedTestSuites: number;
  };
  // A file that fails to load counts as a failed suite without a failed test.
  const failed = Math.max(report.numFailedTests, status === 0 ? 0 : 1);
  return { passed: report.numPassedTests, failed };
}

function pytest(): Counts {
  const file = `${process.cwd()}/${reports}/pytest.xml`;
  const status = run("python", ["-m", "pytest", "-q", `--junitxml=${file}`], "python-trainer");
  if (!existsSync(file)) return { passed: 0, failed: 1 };
  const suite = /<testsuite [^>]*>/.exec(readFileSync(file, "utf8"))?.[0] ?? "";
  const of = (name: string): number => Number(new RegExp(` ${name}="(\\d+)"`).exec(suite)?.[1] ?? 0);
  const failed = Math.max(of("failures") + of("errors"), status === 0 ? 0 : 1);
  return { passed: of("tests") - of("failures") - of("errors") - of("skipped"), failed };
}

function run(command: string, args: string[], cwd: string): number {
  const env = { ...process.env, OMP_NUM_THREADS: "1", OMP_WAIT_POLICY: "PASSIVE" };
  return spawnSync(command, args, { cwd, stdio: "inherit", env }).status ?? 1;
}
