// SPDX-License-Identifier: Apache-2.0
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, it } from "vitest";

import type { RunProgram } from "./python-setup.ts";
import { TORCH, setupPython } from "./python-setup.ts";

const setup = {
  python: "py",
  folder: "/nowhere/python",
  requirements: "req.txt",
  torchIndex: undefined as string | undefined,
  hasGpu: false,
};

/** Records what is run; a program fails when `fails` says so of its words. */
async function record(options: Partial<typeof setup>, fails: RegExp): Promise<string[]> {
  const ran: string[] = [];
  const run: RunProgram = async (program, args) => {
    const words = [program, ...args].join(" ");
    ran.push(words);
    return !fails.test(words);
  };
  await setupPython({ ...setup, ...options }, run, () => {});
  return ran.filter((words) => !words.includes(" -c "));
}

const OWN = "/nowhere/python/bin/python";
const PINNED = `${OWN} -m pip install -q --disable-pip-version-check --require-hashes --no-deps -r req.txt`;
const NO_TORCH = /import torch/;

describe("setupPython", () => {
  it("makes the environment, then PyTorch's CPU build, then the pinned packages", async () => {
    expect(await record({}, NO_TORCH)).toEqual([
      "py -m venv /nowhere/python",
      `${OWN} -m pip install -q --disable-pip-version-check --index-url https://download.pytorch.org/whl/cpu ${TORCH}`,
      PINNED,
    ]);
  });

  it("takes pip's default where there is a GPU or the CPU builds do not answer, and the named index before all", async () => {
    const torch = async (options: Partial<typeof setup>, fails: RegExp) => (await record(options, fails))[1];
    const plain = `${OWN} -m pip install -q --disable-pip-version-check ${TORCH}`;
    expect(await torch({ hasGpu: true }, NO_TORCH)).toBe(plain);
    expect(await torch({}, /import torch|urlopen/)).toBe(plain);
    expect(await torch({ torchIndex: "file:///wheels", hasGpu: true }, NO_TORCH)).toContain(
      "--index-url file:///wheels",
    );
  });

  it("uses a PyTorch that the system has", async () => {
    expect(await record({}, /never/)).toEqual(["py -m venv --system-site-packages /nowhere/python", PINNED]);
  });

  it("makes an environment again whose making was interrupted", async () => {
    const folder = mkdtempSync(join(tmpdir(), "python-setup-"));
    const isMade = async () => (await record({ folder }, /never/)).some((words) => words.includes("-m venv"));
    mkdirSync(join(folder, "bin"));
    writeFileSync(join(folder, "bin/python"), "");
    expect(await isMade()).toBe(true);
    writeFileSync(join(folder, "bin/pip"), "");
    expect(await isMade()).toBe(false);
    rmSync(folder, { recursive: true });
  });

  it("says what is missing", async () => {
    await expect(record({}, /version_info/)).rejects.toThrow("py is not Python 3.11 or newer: name one with --python");
    await expect(record({}, /ensurepip/)).rejects.toThrow("python3-venv");
    await expect(record({}, /-r req.txt/)).rejects.toMatchObject({ code: "PYTHON_SETUP" });
  });
});
