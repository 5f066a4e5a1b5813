// SPDX-License-Identifier: Apache-2.0
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import type { Duplex, Readable, Writable } from "node:stream";
import { CHANNEL_FD, SECCOMP_FD, STARTED_FD } from "./arguments.ts";
import { killGroup } from "./process-group.ts";

export interface ProgramOptions {
  readonly env?: Readonly<Record<string, string>> | undefined;
}

/** A program that stays. */
export interface Program {
  /** Of what keeps it, as the host sees it: the program is below. */
  readonly process: ChildProcess;
  readonly stdout: Readable;
  readonly stderr: Readable;
  /** A socket, descriptor 5 of the program. */
  readonly channel: Duplex;
  /** The program itself was started: what went wrong afterwards is its own. */
  readonly hasBegun: boolean;
  /** Resolves when it is gone. */
  readonly result: Promise<void>;
  kill(): void;
}

export interface ProgramLaunch {
  readonly argv: readonly string[];
  readonly filter: Uint8Array;
  readonly keepersEnv: NodeJS.ProcessEnv;
}

export function launchProgram({ argv, filter, keepersEnv }: ProgramLaunch): Program {
  const [file = "", ...args] = argv;
  const child = spawn(file, args, {
    stdio: ["ignore", "pipe", "pipe", "pipe", "pipe", "pipe"],
    env: keepersEnv,
    detached: true,
  });
  const filterPipe = child.stdio[SECCOMP_FD] as Writable;
  filterPipe.on("error", () => undefined); // It ended before it read all.
  filterPipe.end(filter);
  let hasBegun = false;
  (child.stdio[STARTED_FD] as Readable).on("data", () => (hasBegun = true));
  child.once("exit", () => {
    killGroup(child);
  });
  return {
    process: child,
    stdout: child.stdout as Readable,
    stderr: child.stderr as Readable,
    channel: (child.stdio as unknown[])[CHANNEL_FD] as Duplex,
    get hasBegun() {
      return hasBegun;
    },
    result: gone(child),
    kill() {
      if (child.exitCode === null && child.signalCode === null) killGroup(child);
    },
  };
}

async function gone(child: ChildProcess): Promise<void> {
  await Promise.race([once(child, "exit"), once(child, "error")]).catch(() => undefined);
}
