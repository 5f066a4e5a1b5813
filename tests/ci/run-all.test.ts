// SPDX-License-Identifier: Apache-2.0
// Which runners tests/run-all.ts starts, and what it says at the end. The runners here only say how they were called.
import { spawnSync } from "node:child_process";
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { afterAll, describe, expect, it } from "vitest";
import { ROTATING } from "./rotating.ts";

const folder = mkdtempSync(join(tmpdir(), "run-all-"));
afterAll(() => rmSync(folder, { recursive: true }));

const RUNNER = `#!/bin/sh
name=$(basename "$0")
echo "$name $* parts=$E2E_PARTS without=$WHETSTONE_TEST_WITHOUT" >> "$CALLS"
file=$(echo "$*" | sed -nE 's/.*(outputFile.json|junitxml)=([^ ]+).*/\\2/p')
case $name in
  vitest) echo '{"numPassedTests": 5, "testResults": []}' > "$file" ;;
  python) echo '<testsuite tests="3" failures="0" errors="0" skipped="0">' > "$file" ;;
  make) [ -z "$MAKE_LACKS" ] || ! echo "$*" | grep -q "$MAKE_LACKS" ;;
  node) echo '{"phases": [{"name": "x", "said": "", "outcome": "'$E2E_SAYS'"}]}' > "$E2E_REPORT"; [ "$E2E_SAYS" = passed ] ;;
esac
`;
mkdirSync(join(folder, "bin"));
for (const name of ["vitest", "python", "node", "make"])
  writeFileSync(join(folder, "bin", name), RUNNER, { mode: 0o755 });
for (const name of ["docs", "python-trainer"]) mkdirSync(join(folder, name));
/** Not green for the longest; what else is due takes no turn before them, whatever day it is. */
const OLDEST = ["e2e: learning, own code, on demand", "e2e: volumes, certificates", "kube: jobs"];
const dateOf = (name: string): string => `${OLDEST.includes(name) ? 2020 + OLDEST.indexOf(name) : 2024}-01-01`;
const rows = ROTATING.map(({ name }) => `| ${name} | ${dateOf(name)} | \`unknown\` |\n`);
writeFileSync(join(folder, "docs/STATUS.md"), `| stage | last green | commit |\n| --- | --- | --- |\n${rows.join("")}`);

/** Minutes from now to the aim and to the limit. */
function runAll(args: string[], aim?: number, limit?: number, says = "passed") {
  const calls = join(folder, "calls");
  writeFileSync(calls, "");
  const at = (minutes = Infinity): string => (minutes === Infinity ? "" : String(Date.now() / 1000 + minutes * 60));
  const env = {
    ...process.env,
    ...{ PATH: `${join(folder, "bin")}:${process.env["PATH"]}`, CALLS: calls, E2E_SAYS: says },
    ...{ WHETSTONE_TEST_AIM: at(aim), WHETSTONE_TEST_UNTIL: at(limit) },
  };
  const program = resolve(import.meta.dirname, "../run-all.ts");
  const { stdout, status } = spawnSync(process.execPath, [program, ...args], { cwd: folder, env, encoding: "utf8" });
  return { lines: stdout.trim().split("\n"), status, calls: readFileSync(calls, "utf8").trim().split("\n") };
}

const green = () =>
  JSON.parse(readFileSync(join(folder, ".whetstone/test-reports/green-stages.json"), "utf8")) as unknown;

describe("run-all", () => {
  it("without a cluster runs what needs none", () => {
    const { lines, calls, status } = runAll([]);
    expect([calls.map((call) => call.split(" ")[0]), lines.at(-1), status]).toEqual([
      ["vitest", "python"],
      "8 passed, 0 failed",
      0,
    ]);
  });

  it("runs every stage where nothing is said of time", () => {
    const { calls } = runAll(["--cluster"]);
    expect(calls.filter((call) => call.startsWith("node"))).toEqual([
      expect.stringContaining("parts=chart,train,apply,faults,code,learn,demand,r3,sandboxes"),
    ]);
    expect(green()).toHaveLength(ROTATING.length);
  });

  it("runs as many as there is time for, and names the others before the last line", () => {
    const { lines, calls } = runAll(["--cluster", "--rotate"], 25, 80);
    expect(green()).toEqual(OLDEST);
    expect(calls).toHaveLength(5);
    expect(calls[0], "what takes turns").toContain("without=tests/faults/damaged-checkpoint.test.ts");
    expect(lines.slice(-7, -1).every((line) => line.startsWith("NOT RUN ") && line.includes("no time for"))).toBe(true);
  });

  it("fails a stage whose set-up fails, and does not run its tests", () => {
    process.env["MAKE_LACKS"] = "kuberay";
    const { lines, calls, status } = runAll(["--cluster"]);
    delete process.env["MAKE_LACKS"];
    expect(lines.at(-2)).toBe("FAILED kube: verl on KubeRay: make kuberay ended with 1");
    expect([status, green()]).toEqual([1, expect.not.arrayContaining(["kube: verl on KubeRay"])]);
    expect(calls.filter((call) => call.includes("verl.kube.test.ts"))).toEqual([]);
  });

  it("does not note a stage as green whose runner failed", () => {
    const { lines, status } = runAll(["--cluster", "--rotate"], 25, 80, "failed");
    expect(green()).toEqual(["kube: jobs"]);
    expect([lines.at(-1), status]).toEqual(["14 passed, 1 failed", 1]);
  });
});
