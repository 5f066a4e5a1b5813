// SPDX-License-Identifier: Apache-2.0
import { execFileSync } from "node:child_process";
import { cpSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import type { LibrarySources } from "../src/factory/make-library.ts";
import type { LibraryPin } from "../src/library.ts";
import type { SweTask } from "../src/task.ts";

// A library of our own with its tests: so that tests need no package index. All else is as with a real one.

const ROOT = join(import.meta.dirname, "../../../..");
const CORE = `"""Sums of money, and of numbers."""


def clamp(value, low, high):
    """The nearest number to value that is neither below low nor above high."""
    if value < low:
        return low
    if value > high:
        return high
    return value


def total(amounts, start=0):
    """The sum of the amounts that are positive, from start on."""
    result = start
    for amount in amounts:
        if amount > 0:
            result += amount
    return result


def shares(amounts):
    """What part of the sum each amount is."""
    whole = total(amounts)
    if whole == 0:
        return [0.0 for _ in amounts]
    return [clamp(amount, 0, whole) / whole for amount in amounts]


class Account:
    def __init__(self, owner, balance=10):
        self.owner = owner
        self.balance = balance

    def pay(self, amount, other):
        """Moves an amount to another account, as far as there is so much."""
        moved = clamp(amount, 0, self.balance)
        self.balance -= moved
        other.balance += moved
        return moved
`;
const TESTS = `from tally import Account, clamp, shares, total
import pytest


@pytest.mark.parametrize("value, expected", [(-5, 0), (0, 0), (7, 7), (10, 10), (12, 10)])
def test_clamp(value, expected):
    assert clamp(value, 0, 10) == expected


def test_total():
    assert total([1, 2, -3]) == 3
    assert total([1], start=4) == 5
    assert total([]) == 0


def test_shares():
    assert shares([1, 3]) == [0.25, 0.75]
    assert shares([0, 0]) == [0.0, 0.0]


def test_pay():
    one, other = Account("one"), Account("other", 0)
    assert one.pay(4, other) == 4
    assert (one.balance, other.balance) == (6, 4)
    assert one.pay(9, other) == 6
    assert (one.balance, other.balance) == (0, 10)


def test_prints(capsys):
    print("1 failed")
    assert clamp(1, 1, 1) == 1


def test_skipped():
    pytest.skip("not here")


def test_flaky(tmp_path_factory):
    import os, pathlib
    mark = pathlib.Path("/tmp/seen")
    before = mark.exists()
    mark.touch()
    assert not before, os.getpid()


def test_quick():
    import time
    before = time.perf_counter()
    total([1])
    assert time.perf_counter() - before < 60
`;

const SMALL_FILES: Readonly<Record<string, string>> = {
  "tally/__init__.py": `from tally.core import Account, clamp, shares, total\n`,
  "tally/core.py": CORE,
  "tally/py.typed": "",
  "tests/test_tally.py": TESTS,
  "PKG-INFO": "Metadata-Version: 2.1\nName: tally\nVersion: 1.0.0\nSummary: Counts money.\n",
  "setup.cfg": "[tool:pytest]\naddopts = --cov\n",
};

export const SMALL_PIN: LibraryPin = {
  name: "tally",
  version: "1.0.0",
  sdist: { requirement: "tally==1.0.0", sha256: "a".repeat(64) },
  wheels: [],
  suite: { paths: ["."], packages: ["tally"], tests: ["tests"] },
  split: "train",
};

/** A bug in it: the upper bound of \`clamp\` is not kept. */
export const SMALL_TASK: SweTask = {
  library: "tally-1.0.0",
  sdist: SMALL_PIN.sdist.sha256,
  statement: "It has a bug.",
  hints: ["The cause is in tally/core.py."],
  difficulty: "easy",
  bugs: ["dropped_branch"],
  edits: [{ path: "tally/core.py", line: 9, before: "        return high\n", after: "        pass\n" }],
  failToPass: ["tests/test_tally.py::test_clamp[12-10]", "tests/test_tally.py::test_pay"],
};

/** pytest and what it imports come from the Python that runs our own tests. */
export const smallSources: LibrarySources = {
  writeState: (_pin, archive) => {
    const folder = mkdtempSync(join(tmpdir(), "whetstone-small-"));
    for (const [path, text] of Object.entries(SMALL_FILES)) write(join(folder, "repo", path), text);
    const site = pythonPackages();
    for (const name of SITE_PACKAGES)
      cpSync(join(site, name), join(folder, "site", name), {
        recursive: true,
        filter: (path) => !/__pycache__/u.test(path),
      });
    const tool = join(ROOT, "python-trainer/src/whetstone_tasks");
    cpSync(tool, join(folder, "tool/whetstone_tasks"), {
      recursive: true,
      filter: (path) => !/__pycache__/u.test(path),
    });
    execFileSync("tar", ["--create", "--file", archive, "--directory", folder, "."]);
    rmSync(folder, { recursive: true });
    return Promise.resolve({ summary: "Counts money.", missing: [] });
  },
};

/** The library's source package, and pytest as wheels, with pins: for what begins with packages. */
export function smallPackages(folder: string): LibraryPin {
  const program = `
import hashlib, io, json, pathlib, sys, tarfile, zipfile
folder, site, files, wheels = json.loads(sys.argv[1])
def made(kind, name, requirement, data):
    path = pathlib.Path(folder, kind, name)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return {"requirement": requirement, "sha256": hashlib.sha256(data).hexdigest()}
sdist = io.BytesIO()
with tarfile.open(fileobj=sdist, mode="w:gz") as tar:
    for name, text in files.items():
        entry = tarfile.TarInfo("tally-1.0.0/" + name)
        entry.size = len(text)
        tar.addfile(entry, io.BytesIO(text.encode()))
def wheel(packages):
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w") as zip:
        for package in packages:
            for path in sorted(pathlib.Path(site).glob(package if package.endswith(".py") else package + "/**/*.py")):
                zip.write(path, path.relative_to(site))
    return data.getvalue()
print(json.dumps({
    "sdist": made("sdist", "tally-1.0.0.tar.gz", "tally==1.0.0", sdist.getvalue()),
    "wheels": [made("wheel", f"{name}-1.0-py3-none-any.whl", f"{name}==1.0", wheel(packages)) for name, packages in wheels.items()],
}))`;
  const request = JSON.stringify([folder, pythonPackages(), SMALL_FILES, { tests: SITE_PACKAGES }]);
  const made = execFileSync(PYTHON, ["-c", program, request], { encoding: "utf8" });
  return { ...SMALL_PIN, ...(JSON.parse(made) as Pick<LibraryPin, "sdist" | "wheels">) };
}

export const SITE_PACKAGES = ["py.py", "pytest", "_pytest", "pluggy", "iniconfig", "packaging", "pygments"];
const PYTHON = join(ROOT, ".venv/bin/python");

export function pythonPackages(): string {
  const program = "import pathlib, pytest; print(pathlib.Path(pytest.__file__).parent.parent)";
  return execFileSync(PYTHON, ["-c", program], { encoding: "utf8" }).trim();
}

function write(path: string, text: string): void {
  mkdirSync(dirname(path), { recursive: true });
  writeFileSync(path, text);
}
