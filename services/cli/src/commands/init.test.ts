// SPDX-License-Identifier: Apache-2.0
import { spawnSync } from "node:child_process";
import { mkdtempSync, readFileSync, readdirSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";

import { afterEach, beforeEach, describe, expect, it } from "vitest";

import { fakeTerminal } from "../../test-support/fake-terminal.ts";
import { runCommand } from "../run-command.ts";
import { INSTALLATION } from "../runtime/layout.ts";

let folder: string;
beforeEach(() => void (folder = mkdtempSync(join(tmpdir(), "whet-init-"))));
afterEach(() => rmSync(folder, { recursive: true, force: true }));

async function run(...argv: string[]) {
  const terminal = fakeTerminal();
  const signal = new AbortController().signal;
  const code = await runCommand(argv, { terminal, environment: {}, signal, force: signal });
  return { code, ...terminal };
}

/** npm's scripts find the Node that runs this test, whatever the system's is. */
function nodeFirst(): NodeJS.ProcessEnv {
  return { ...process.env, PATH: `${dirname(process.execPath)}:${process.env["PATH"] ?? ""}` };
}

describe("whet init", () => {
  it("makes a project whose own test passes", async () => {
    await run("init", join(folder, "My Agents"));
    const project = join(folder, "My Agents");
    expect(readdirSync(project).sort()).toEqual([
      ".gitignore",
      "README.md",
      "package.json",
      "src",
      "test",
      "tsconfig.json",
    ]);
    const manifest = JSON.parse(readFileSync(join(project, "package.json"), "utf8"));
    expect(manifest).toMatchObject({ name: "my-agents", type: "module", scripts: { train: "whet train src/job.ts" } });
    expect(readFileSync(join(project, "README.md"), "utf8")).toMatch(/^# my-agents\n/);
    symlinkSync(join(INSTALLATION.root, "node_modules"), join(project, "node_modules"));
    const { status, stdout, stderr } = spawnSync("npm", ["test"], { cwd: project, encoding: "utf8", env: nodeFirst() });
    expect([status, /pass 2\b/.test(stdout), /fail 0\b/.test(stdout)], stdout + stderr).toEqual([0, true, true]);
  });

  it("leaves what exists alone, and says so", async () => {
    writeFileSync(join(folder, "package.json"), "mine");
    const { out } = await run("init", folder);
    expect(readFileSync(join(folder, "package.json"), "utf8")).toBe("mine");
    expect(out.filter((line) => line.startsWith("kept"))).toEqual([`kept ${join(folder, "package.json")}: it exists`]);
    const { documents } = await run("init", folder, "--json");
    expect(documents).toMatchObject([{ made: [], kept: expect.arrayContaining(["src/job.ts", ".gitignore"]) }]);
  });

  it("says which Node its tests need, under an older one", () => {
    const check = join(INSTALLATION.templates, "default/test/require-node.mjs");
    const as = (version: string): string =>
      `Object.defineProperty(process, "versions", { value: { node: "${version}" } }); await import(${JSON.stringify(check)});`;
    const [old, current] = ["20.19.0", "24.2.0"].map((version) =>
      spawnSync(process.execPath, ["--input-type=module", "--eval", as(version)], { encoding: "utf8" }),
    );
    expect([old?.status, old?.stderr]).toEqual([1, expect.stringContaining("Node 24.2 or newer is needed")]);
    expect(current?.status).toBe(0);
  });

  it("refuses a file, by path", async () => {
    writeFileSync(join(folder, "file"), "");
    const { code, err } = await run("init", join(folder, "file"));
    expect([code, err[0]]).toEqual([2, `${join(folder, "file")}: is a file`]);
  });
});
