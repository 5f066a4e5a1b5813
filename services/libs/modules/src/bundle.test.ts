// SPDX-License-Identifier: Apache-2.0
import { spawnSync } from "node:child_process";
import { cpSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { afterAll, describe, expect, it } from "vitest";
import { bundleModule } from "./bundle.ts";
import { digestOf, MAX_CODE_BYTES } from "./code.ts";

const root = mkdtempSync(join(tmpdir(), "whetstone-bundle-"));
afterAll(() => {
  rmSync(root, { recursive: true });
});

function write(files: Record<string, string>, folder = join(root, "job")): string {
  for (const [path, text] of Object.entries(files)) {
    mkdirSync(dirname(join(folder, path)), { recursive: true });
    writeFileSync(join(folder, path), text);
  }
  return join(folder, Object.keys(files)[0] as string);
}

/** In plain Node: the test runner has a module loader of its own. */
function load(...args: string[]): unknown {
  const program = join(import.meta.dirname, "../test-support/load-bundle.ts");
  const { stdout, stderr } = spawnSync(process.execPath, [program, ...args], { encoding: "utf8" });
  if (stdout === "") throw new Error(stderr);
  return JSON.parse(stdout);
}

describe("bundleModule", () => {
  it("makes one module of many files, with the host's own SDK, wherever it lies", async () => {
    const entry = write({
      "job.ts":
        'import { BaseAgent } from "@whetstone/sdk";\nimport { add } from "./lib/add.ts";\nexport { BaseAgent };\nexport const five: number = add(2, 3);',
      "lib/add.ts": "export function add(a: number, b: number): number { return a + b; }",
    });
    const { code, digest } = await bundleModule(entry);
    expect(digest).toBe(digestOf(code));
    expect(load(entry)).toEqual({ exports: { five: 5 }, hasHostsSdk: true });
    cpSync(join(root, "job"), join(root, "elsewhere/deep"), { recursive: true });
    expect((await bundleModule(join(root, "elsewhere/deep/job.ts"))).digest).toBe(digest);
  });

  it("takes in what lies beside the SDK; its errors are the host's", () => {
    expect(load(join(import.meta.dirname, "../../tools/src/tool.ts"))).toMatchObject({ hasHostsCore: true });
  });

  it("takes packages in CommonJS that require Node's own modules", async () => {
    const entry = write({
      "cjs.ts": 'import { sep } from "./old.cjs";\nexport const s = sep;',
      "old.cjs": 'module.exports.sep = require("path").sep;',
    });
    expect(load(entry)).toMatchObject({ exports: { s: "/" } });
  });

  it("names file and line of every error", async () => {
    const entry = write({
      "bad.ts": 'import { x } from "./missing.ts";\nimport "not-installed";\nexport const y = x;',
    });
    const error = await bundleModule(entry, { shownAs: "bad.ts" }).catch((thrown: unknown) => thrown);
    expect(error).toMatchObject({ code: "INVALID_ARGUMENT" });
    const paths = (error as { violations: { path: string; reason: string }[] }).violations;
    expect(paths.map(({ path }) => path.replace(/^.*\//, ""))).toEqual(["bad.ts:1:19", "bad.ts:2:8"]);
    expect(paths[1]?.reason).toContain('Could not resolve "not-installed"');
  });

  it("refuses what is not there and what is too large", async () => {
    await expect(bundleModule(join(root, "nothing.ts"))).rejects.toThrow("nothing.ts: does not exist");
    const entry = write({ "large.ts": `export const text = "${"x".repeat(MAX_CODE_BYTES)}";` });
    await expect(bundleModule(entry)).rejects.toThrow(`at most ${MAX_CODE_BYTES}`);
  });
});

describe("a module with a large package", () => {
  it("is taken without that one's source map, and its errors still name the user's own lines", async () => {
    const statements = "count(count(count(1)));\n".repeat(300_000);
    const entry = write({
      "with-large.ts": 'import { counted } from "large";\n\nthrow new Error(`${counted}`);',
      "node_modules/large/package.json": '{ "name": "large", "type": "module", "main": "index.js" }',
      "node_modules/large/index.js": `export let counted = 0;\nconst count = () => counted++;\n${statements}`,
    });
    expect((await bundleModule(entry)).code.length).toBeLessThan(MAX_CODE_BYTES);
    expect(load(entry)).toEqual({ message: "900000", place: "with-large.ts:3:7" });
  });
});

describe("loadModule", () => {
  it("tells the user's file and line of what a module throws", () => {
    const entry = write({ "throws.ts": 'import "./inner.ts";', "inner.ts": '\n\nthrow new Error("no");' });
    expect(load(entry)).toEqual({ message: "no", place: "inner.ts:3:7" });
  });

  it("tells the user's file and line of a function that has returned", () => {
    const entry = write({
      "env.ts": 'export { Env as default } from "./own/env.ts";',
      "own/env.ts":
        "export class Env {\n  reset(): number {\n    return 1;\n  }\n\n  step(): number {\n    return NaN;\n  }\n}",
    });
    expect(load(entry)).toMatchObject({ stepAt: "own/env.ts:6" });
  });

  it("refuses imports that were not bundled", () => {
    const raw = 'const name = "left-pad"; export const x = await import(name);';
    expect(load("", raw)).toMatchObject({ message: expect.stringContaining('imports "left-pad"') as string });
  });
});
