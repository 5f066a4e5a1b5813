// SPDX-License-Identifier: Apache-2.0
// What the quickstart says when it cannot start. That it learns is for `make quickstart` itself, and for the end-to-end tests.
import { spawnSync } from "node:child_process";
import { existsSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { afterAll, describe, expect, it } from "vitest";
import { acquireLock } from "../../services/cli/src/runtime/lock.ts";
import { writeState } from "../../services/cli/src/runtime/state-file.ts";

const data = mkdtempSync(join(tmpdir(), "quickstart-"));
afterAll(() => rmSync(data, { recursive: true }));

function quickstart(...args: string[]) {
  const program = resolve(import.meta.dirname, "../../examples/frozenlake/quickstart.ts");
  return spawnSync(process.execPath, [program, ...args], { encoding: "utf8" });
}

describe("the quickstart refuses", () => {
  it.each([
    ["an option out of its range", ["--steps", "0"], "--steps: must be a whole number from 1 to 100000"],
    ["an option that there is not", ["--foo"], "Unknown option '--foo'"],
  ])("%s, without a stack", (_, args, reason) => {
    const { status, stderr } = quickstart(...args);
    expect(status).toBe(2);
    expect(stderr).toContain(`quickstart: ${reason}`);
    expect(stderr).not.toContain("    at ");
  });

  it("a folder that another one uses, and leaves it as it is", () => {
    const lock = acquireLock(join(data, "lock"), "another");
    const services = [{ name: "nats", phase: "ready", ports: {}, crashes: 0, log: "" }] as const;
    const state = {
      instance: "another",
      pid: process.pid,
      startedAt: "",
      phase: "ready",
      model: "",
      services,
    } as const;
    writeState(join(data, "runtime.json"), { format: "whetstone.runtime/v1", ...state });
    writeFileSync(join(data, "result.json"), "{}");
    const { status, stderr } = quickstart("--data", data);
    expect([status, stderr]).toEqual([
      2,
      `quickstart: a runtime is running in ${data}: end it with \`npx whet down --data ${data}\`\n`,
    ]);
    expect(existsSync(join(data, "result.json"))).toBe(true);
    lock.release();
  });
});
