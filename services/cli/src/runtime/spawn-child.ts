// SPDX-License-Identifier: Apache-2.0
/**
 * A child that cannot outlive the supervisor, whatever kills it: its own process group for an orderly stop, the kernel's
 * parent-death signal where there is one, and a stdin pipe whose end tells services that nobody watches any more.
 */
import { spawn } from "node:child_process";
import type { ChildProcess } from "node:child_process";
import { existsSync } from "node:fs";

import { INSTALLATION } from "./layout.ts";
import type { LogFile } from "./log-file.ts";
import type { ServiceSpec } from "./service-spec.ts";

const SETPRIV = ["/usr/bin/setpriv", "/bin/setpriv"].find((path) => existsSync(path));

export function spawnChild(spec: ServiceSpec, log: LogFile): ChildProcess {
  const [program, ...args] = [...deathSignalPrefix(), ...spec.command];
  const child = spawn(program as string, args, {
    cwd: INSTALLATION.root,
    env: { ...spec.environment, WHETSTONE_SUPERVISED: "1" },
    stdio: ["pipe", "pipe", "pipe"],
    detached: true,
  });
  child.stdout.on("data", (chunk: Buffer) => log.write(chunk));
  child.stderr.on("data", (chunk: Buffer) => log.write(chunk));
  child.stdin.on("error", () => {}); // it closed its end: nothing is ever written there
  return child;
}

/** util-linux; without it (macOS) the stdin pipe alone ends our own services, and `whet up` cleans up what is left. */
function deathSignalPrefix(): string[] {
  return process.platform === "linux" && SETPRIV ? [SETPRIV, "--pdeathsig", "TERM"] : [];
}
