// SPDX-License-Identifier: Apache-2.0
import { execFile } from "node:child_process";
import { randomBytes } from "node:crypto";
import { chmodSync, chownSync, lstatSync, mkdirSync } from "node:fs";
import { join } from "node:path";
import { promisify } from "node:util";
import { SANDBOX_UID } from "./arguments.ts";
import { removeFolder } from "./owner.ts";

/** The files of a sandbox of level C, in folders whose names nobody else can guess. */
export interface LiteFolder {
  readonly workspace: string;
  readonly temporary: string;
  remove(): Promise<void>;
}

const COPY_MS = 600_000;
const run = promisify(execFile);

export interface LiteFolderOptions {
  readonly parent: string;
  readonly id: string;
  /** What its workspace holds at first. */
  readonly lower: string | undefined;
  readonly signal: AbortSignal | undefined;
}

export async function makeLiteFolder({ parent, id, lower, signal }: LiteFolderOptions): Promise<LiteFolder> {
  const path = join(parent, `${id}-${randomBytes(16).toString("hex")}`);
  const [workspace, temporary] = [join(path, "workspace"), join(path, "tmp")];
  const remove = async (): Promise<void> => {
    await Promise.resolve();
    removeFolder(path);
  };
  try {
    for (const folder of [path, workspace, temporary]) ownDirectory(folder);
    const limits = { timeout: COPY_MS, ...(signal && { signal }) };
    if (lower !== undefined) await run("cp", ["-a", "--reflink=auto", "--", `${lower}/.`, workspace], limits);
  } catch (error) {
    await remove();
    throw error;
  }
  return { workspace, temporary, remove };
}

function ownDirectory(path: string): void {
  mkdirSync(path);
  chmodSync(path, 0o700);
  if (process.getuid?.() === 0) chownSync(path, SANDBOX_UID, SANDBOX_UID);
}

/** Devices that hold nothing. */
export const WRITABLE_DEVICES = ["/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom"] as const;

/** What the other levels show too, and of /proc what tells of the machine alone. */
export function readableAtC(): string[] {
  const beside = ["bin", "sbin", "lib", "lib64"].map((name) => `/${name}`);
  const files = ["/etc/ld.so.cache", "/etc/alternatives", "/etc/bash.bashrc"];
  const machine = ["cpuinfo", "meminfo", "stat", "version", "filesystems"].map((name) => `/proc/${name}`);
  return ["/usr", ...beside, ...files, ...machine].filter((path) => lstatSync(path, { throwIfNoEntry: false }));
}
