// SPDX-License-Identifier: Apache-2.0
import { execFileSync } from "node:child_process";
import { cpSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import type { Info } from "@whetstone/sdk";
import { pythonPackages, SITE_PACKAGES } from "./small-library.ts";

// A repository of our own as SWE-bench's and R2E-Gym's images hold theirs, with tasks in their formats.

const BROKEN = `def clamp(value, low, high):
    """The nearest number to value that is neither below low nor above high."""
    if value < low:
        return low
    return value


def total(amounts):
    return sum(amount for amount in amounts if amount > 0)
`;
const FIX = `--- a/tally/core.py
+++ b/tally/core.py
@@ -2,5 +2,7 @@
     """The nearest number to value that is neither below low nor above high."""
     if value < low:
         return low
+    if value > high:
+        return high
     return value
 
`;
const OLD_TESTS = `from tally.core import clamp, total


def test_low():
    assert clamp(-5, 0, 10) == 0


def test_total():
    assert total([1, 2, -3]) == 3
`;
const NEW_TESTS = `${OLD_TESTS}

def test_high():
    assert clamp(12, 0, 10) == 10
`;
const TEST_PATCH = `diff --git a/tests/test_core.py b/tests/test_core.py
--- a/tests/test_core.py
+++ b/tests/test_core.py
@@ -7,3 +7,7 @@ def test_low():
 
 def test_total():
     assert total([1, 2, -3]) == 3
+
+
+def test_high():
+    assert clamp(12, 0, 10) == 10
diff --git a/tests/test_more.py b/tests/test_more.py
new file mode 100644
--- /dev/null
+++ b/tests/test_more.py
@@ -0,0 +1,5 @@
+from tally import core
+
+
+def test_between():
+    assert [core.clamp(n, 1, 2) for n in range(4)] == [1, 1, 2, 2]
`;

const ROOT = "/workspace/testbed";
export const PYTEST_ENVIRONMENT = {
  PYTHONPATH: "/workspace/testbed/.venv:/workspace/site",
  PYTEST_DISABLE_PLUGIN_AUTOLOAD: "1",
} as const;

/** As SWE-bench writes them: what is there, the tests of the patch, the run between the marks, and the tests put back. */
const EVAL_SCRIPT = `#!/bin/bash
set -uxo pipefail
cd ${ROOT}
git config --global --add safe.directory ${ROOT}
git status
export TALLY=1
git checkout HEAD tests/test_core.py
git apply -v - <<'EOF_114329324912'
${TEST_PATCH}EOF_114329324912
: '>>>>> Start Test Output'
python3 -m pytest -rA -p no:cacheprovider tests/test_core.py tests/test_more.py
: '>>>>> End Test Output'
git checkout HEAD tests/test_core.py
`;

/** A row of SWE-bench's. */
export const SWE_BENCH_ROW = {
  instance_id: "tally__tally-1",
  repo: "tally/tally",
  base_commit: "0".repeat(40),
  version: "1.0",
  created_at: "2026-01-01T00:00:00Z",
  hints_text: "",
  environment_setup_commit: "0".repeat(40),
  problem_statement: "clamp() gives numbers above its upper bound.",
  patch: `diff --git a/tally/core.py b/tally/core.py\n${FIX}`,
  test_patch: TEST_PATCH,
  eval_script: EVAL_SCRIPT,
  log_parser: "parse_log_pytest",
  eval_type: "pass_and_fail",
  FAIL_TO_PASS: JSON.stringify(["tests/test_core.py::test_high", "tests/test_more.py::test_between"]),
  PASS_TO_PASS: JSON.stringify(["tests/test_core.py::test_low", "tests/test_core.py::test_total"]),
} as const satisfies Info;

/** A row of R2E-Gym's: the tests lie in the repository's folder. */
export const R2E_GYM_ROW = {
  repo_name: "tally",
  docker_image: "namanjain12/tally_final:abc",
  commit_hash: "abc",
  problem_statement: "[ISSUE]\nclamp() gives numbers above its upper bound.\n[/ISSUE]",
  parsed_commit_content: "{}",
  expected_output_json: JSON.stringify({ test_high: "PASSED", test_low: "PASSED", test_total: "PASSED" }),
} as const satisfies Info;

/** The repair, as a command of an agent's. */
export const REPAIR = `git apply <<'X'\n${FIX}X`;

/** Makes the folder of states with both tasks in it. */
export function makeStates(): string {
  const states = mkdtempSync(join(tmpdir(), "whetstone-states-"));
  const common = {
    "tally/__init__.py": "",
    "tally/core.py": BROKEN,
    "tests/test_core.py": OLD_TESTS,
    ".gitignore": "__pycache__\n.venv\n",
    "setup.cfg": "[tool:pytest]\naddopts = -q\n",
  };
  makeState(join(states, SWE_BENCH_ROW.instance_id), common);
  makeState(join(states, R2E_GYM_ROW.commit_hash), {
    ...common,
    "r2e_tests/test_1.py": NEW_TESTS,
    "run_tests.sh": "python3 -m pytest -rA -p no:cacheprovider r2e_tests\n",
    "expected_test_output.json": R2E_GYM_ROW.expected_output_json,
  });
  return states;
}

function makeState(folder: string, files: Readonly<Record<string, string>>): void {
  const repository = join(folder, "testbed");
  for (const [path, text] of Object.entries(files)) {
    mkdirSync(dirname(join(repository, path)), { recursive: true });
    writeFileSync(join(repository, path), text);
  }
  const git = (...args: string[]): unknown =>
    execFileSync("git", ["-c", "user.name=a", "-c", "user.email=a@b", ...args], { cwd: repository, stdio: "pipe" });
  git("init", "-q");
  git("add", "tally", "tests", ".gitignore", "setup.cfg");
  git("commit", "-qm", "before");
  // The repair comes later in the history, where an agent must not find it.
  execFileSync("git", ["apply"], { cwd: repository, input: FIX });
  git("commit", "-qam", "the repair");
  git("tag", "repaired");
  git("reset", "-q", "--hard", "HEAD~1");
  // What is installed beside the repository's own files.
  mkdirSync(join(repository, ".venv"), { recursive: true });
  writeFileSync(join(repository, ".venv/sitecustomize.py"), "");
  const site = pythonPackages();
  for (const name of SITE_PACKAGES) cpSync(join(site, name), join(folder, "site", name), { recursive: true });
  execFileSync("python3", ["-m", "compileall", "-q", "-s", folder, "-p", "/workspace", join(folder, "site")]);
}

export function removeStates(states: string): void {
  rmSync(states, { recursive: true, force: true });
}
