// SPDX-License-Identifier: Apache-2.0
/**
 * A child that cannot outlive the supervisor, whatever kills it: its own process group for an orderly stop, the kernel's
 * parent-death signal where there is one, and a stdin pipe whose end tells services that nobody watches any more.
 */
import { spawn } from "node:child_process";
import type { ChildProcess } from "node:child_process";

import { dieWithUs } from "@whetstone/core";

import { INSTALLATION } from "./layout.ts";
import type { LogFile } from "./log-file.ts";
import type { ServiceSpec } from "./service-spec.ts";

export function spawnChild(spec: ServiceSpec, log: LogFile): ChildProcess {
  // Without setpriv the stdin pipe alone ends our own services, and `whet up` cleans up what is left.
  const [program, ...args] = dieWithUs("TERM", ...spec.command);
  const child = spawn(program, args, {
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
