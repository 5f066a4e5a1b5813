// SPDX-License-Identifier: Apache-2.0
import { execFileSync } from "node:child_process";
import { join } from "node:path";

const FOLDER = join(import.meta.dirname, "../../../sandbox-daemon");

/** The daemon of sandboxes, made of its sources where they have changed. @returns its path */
export function daemonProgram(): string {
  execFileSync("make", ["--silent", "-C", FOLDER], { stdio: "inherit" });
  return join(FOLDER, "dist/sandboxd");
}
