// SPDX-License-Identifier: Apache-2.0
/**
 * Writes what the sandboxes of a library of npm begin with: `repo/` is the package, `site/` what its tests import, as a lock file of
 * ours names it. What would give an answer away is left out (L1): builds, and the library itself among what tests import.
 */
import { execFile } from "node:child_process";
import { cp, mkdir, mkdtemp, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { existsSync } from "node:fs";
import { tmpdir } from "node:os";
import { basename, dirname, join } from "node:path";
import { promisify } from "node:util";

import { WhetstoneError } from "@whetstone/core";
import type { LibraryPin, StateSummary } from "@whetstone/swe";

import { CliError } from "../cli-error.ts";
import { javascriptTool } from "./javascript-tool.ts";
import lock from "./npm-lock.json" with { type: "json" };
import type { PackageCache } from "./package-cache.ts";

const LEAKS = /(^|\/)(dist|build|node_modules|\.git|[^/]*\.min\.js)(\/|$)/u;
const NPM_MS = 600_000;
const TAR_MS = 60_000;
const run = promisify(execFile);

export async function writeNpmState(
  pin: LibraryPin,
  archive: string,
  { cache, tool, signal }: { cache: PackageCache; tool: Readonly<Record<string, string>>; signal: AbortSignal },
): Promise<StateSummary> {
  const folder = await mkdtemp(join(tmpdir(), "whetstone-npm-"));
  try {
    const repo = join(folder, "state/repo");
    await unpack(join(cache.folder, await cache.get(pin.sdist, "npm")), repo, signal);
    await installSite(folder, pin, signal);
    const files = { ...tool, "javascript.cjs": await javascriptTool() };
    for (const [path, text] of Object.entries(files)) await write(join(folder, "state/tool", path), text);
    const same = ["--sort=name", "--mtime=@0", "--owner=0", "--group=0", "--numeric-owner", "--mode=u+rwX,go+rX"];
    const what = ["--create", "--file", archive, "--directory", join(folder, "state"), "."];
    await run("tar", [...same, ...what], { timeout: TAR_MS, signal });
    const { description = "" } = JSON.parse(await readFile(join(repo, "package.json"), "utf8")) as {
      description?: string;
    };
    const needed = [...pin.suite.packages, ...pin.suite.tests];
    return { summary: description, missing: needed.filter((path) => !existsSync(join(repo, path))) };
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

async function unpack(tarball: string, repo: string, signal: AbortSignal): Promise<void> {
  await mkdir(repo, { recursive: true });
  const args = ["--extract", "--strip-components=1", "--no-same-owner", "--file", tarball, "--directory", repo];
  await run("tar", args, { timeout: TAR_MS, signal });
  for (const path of await readdir(repo, { recursive: true }))
    if (LEAKS.test(path)) await rm(join(repo, path), { recursive: true, force: true }); // L1
}

/** By npm, which checks every package's digest; nothing of them is run. */
async function installSite(folder: string, { name }: LibraryPin, signal: AbortSignal): Promise<void> {
  const project = join(folder, "project");
  await write(join(project, "package.json"), JSON.stringify(lock.packages[""]));
  await write(join(project, "package-lock.json"), JSON.stringify(lock));
  const args = ["ci", "--ignore-scripts", "--no-audit", "--no-fund", "--no-bin-links", "--prefer-offline"];
  try {
    await run("npm", args, { cwd: project, timeout: NPM_MS, signal });
  } catch (error) {
    const why = WhetstoneError.from(error).message.trim().slice(-500);
    throw new CliError("PACKAGE", `npm could not install what the tests of ${name} import: ${why}`);
  }
  const isKept = (path: string): boolean => !(basename(path) === name && basename(dirname(path)) === "node_modules"); // L1
  await cp(join(project, "node_modules"), join(folder, "state/site/node_modules"), { recursive: true, filter: isKept });
}

async function write(path: string, text: string): Promise<void> {
  await mkdir(dirname(path), { recursive: true });
  await writeFile(path, text);
}
