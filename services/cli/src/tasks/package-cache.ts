// SPDX-License-Identifier: Apache-2.0
/** Packages of the Python package index and of npm by name, version and digest: downloaded once, by pip or npm, and checked each time. */
import { execFile } from "node:child_process";
import { createHash } from "node:crypto";
import { mkdir, readdir, readFile } from "node:fs/promises";
import { homedir } from "node:os";
import { join, resolve } from "node:path";
import { promisify } from "node:util";

import { WhetstoneError } from "@whetstone/core";
import type { PackageFile } from "@whetstone/swe";

import { CliError } from "../cli-error.ts";
import { runPython } from "../models/models-tool.ts";

export type PackageKind = "sdist" | "wheel" | "npm";

/** pip prepares a source package's metadata, for which it installs what builds the package. */
const DOWNLOAD_MS = 900_000;

export function packagesFolder(flag: string | undefined, environment: NodeJS.ProcessEnv): string {
  const named = flag ?? environment["WHETSTONE_PACKAGES"];
  return named === undefined || named === "" ? join(homedir(), ".whetstone/packages") : resolve(named);
}

export class PackageCache {
  readonly folder: string;
  readonly #signal: AbortSignal;

  constructor(folder: string, signal: AbortSignal) {
    this.folder = folder;
    this.#signal = signal;
  }

  /** @returns the file's path below the folder. @throws CliError when it cannot be had, or is another one than was pinned. */
  async get(wanted: PackageFile, kind: PackageKind): Promise<string> {
    await mkdir(join(this.folder, kind), { recursive: true });
    const found = (await this.#find(wanted, kind)) ?? (await this.#download(wanted, kind));
    return join(kind, found);
  }

  async #find({ requirement, sha256 }: PackageFile, kind: PackageKind): Promise<string | undefined> {
    const names = await readdir(join(this.folder, kind));
    for (const name of names.filter((each) => isOf(each, requirement))) {
      const bytes = await readFile(join(this.folder, kind, name));
      if (createHash("sha256").update(bytes).digest("hex") === sha256) return name;
    }
    return undefined;
  }

  async #download(wanted: PackageFile, kind: PackageKind): Promise<string> {
    await (kind === "npm" ? this.#byNpm(wanted) : this.#byPip(wanted, kind));
    const found = await this.#find(wanted, kind);
    if (found !== undefined) return found;
    const what = `the index has another file for ${wanted.requirement} than the one with the SHA-256 ${wanted.sha256}`;
    throw new CliError("PACKAGE", what);
  }

  async #byNpm({ requirement }: PackageFile): Promise<void> {
    const args = ["pack", requirement, "--ignore-scripts", "--silent", "--pack-destination", join(this.folder, "npm")];
    try {
      await promisify(execFile)("npm", args, { timeout: DOWNLOAD_MS, signal: this.#signal });
    } catch (error) {
      const why = WhetstoneError.from(error).message.trim().slice(-500);
      throw new CliError("PACKAGE", `npm could not download ${requirement}: ${why}`);
    }
  }

  async #byPip(wanted: PackageFile, kind: "sdist" | "wheel"): Promise<void> {
    const name = wanted.requirement.split("==")[0] ?? "";
    const form = kind === "sdist" ? ["--no-binary", name] : ["--only-binary", ":all:"];
    const args = [
      "-m",
      "pip",
      "download",
      "-q",
      "--no-deps",
      ...form,
      "-d",
      join(this.folder, kind),
      wanted.requirement,
    ];
    const { code, stderr } = await runPython(args, this.#signal, DOWNLOAD_MS);
    if (code !== 0)
      throw new CliError("PACKAGE", `pip could not download ${wanted.requirement}: ${stderr.trim().slice(-500)}`);
  }
}

/** "python_slugify-9.2.0.tar.gz" is of "python-slugify==9.2.0". */
function isOf(file: string, requirement: string): boolean {
  const [name = "", version = ""] = requirement.split(/==|@/u);
  const normal = (text: string): string => text.toLowerCase().replaceAll(/[-_.]+/gu, "-");
  return normal(file)
    .replace(/-tgz$/u, "-")
    .startsWith(`${normal(name)}-${normal(version)}-`);
}
