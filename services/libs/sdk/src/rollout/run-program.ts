// SPDX-License-Identifier: Apache-2.0
import { type ChildProcess, spawn } from "node:child_process";
import type { Readable } from "node:stream";
import { abortReason } from "@whetstone/core";

/** How a program is started. */
export interface Launch {
  /** Program and arguments; no shell reads them. */
  readonly command: readonly string[];
  /** The whole environment of the program: nothing else is inherited. */
  readonly env: Readonly<Record<string, string>>;
  /** Its working directory. */
  readonly cwd: string;
}

/** How it ended by itself. */
export interface ProgramEnd {
  /** 128 + n when signal n ended it. */
  readonly exitCode: number;
  /** The last 64 KiB. */
  readonly stdout: string;
  /** The last 4 KiB. */
  readonly stderr: string;
}

// P1: a program and all it started are one process group, which is killed when the program has ended, when the signal aborts,
// and when this process dies, however it dies: then the keeper reads the end of file descriptor 3.
// P2: after an abort it has GRACE_MS to end by itself.
const KEEPER = `trap : TERM; { trap '' TERM; cat <&3 >/dev/null; kill -KILL 0; } & "$@" 3<&-; exit $?`;
const LIFELINE = 3;
const GRACE_MS = 500;
/** A program that escaped its group may still hold the pipes. */
const PIPES_MS = 200;
const STDOUT_BYTES = 65_536;
const STDERR_BYTES = 4_096;

/** @throws the signal's reason, after the whole group is gone; whatever `spawn` throws. */
export async function runProgram(launch: Launch, signal: AbortSignal): Promise<ProgramEnd> {
  if (signal.aborted) throw abortReason(signal);
  const { command, env, cwd } = launch;
  const child = spawn("/bin/sh", ["-c", KEEPER, "sh", ...command], {
    cwd,
    env,
    detached: true,
    stdio: ["ignore", "pipe", "pipe", "pipe"],
  });
  const stdout = new Tail(child.stdout, STDOUT_BYTES);
  const stderr = new Tail(child.stderr, STDERR_BYTES);
  child.stdio[LIFELINE]?.on("error", () => undefined);
  const exitCode = await ended(child, signal);
  if (signal.aborted) throw abortReason(signal);
  return { exitCode, stdout: stdout.text, stderr: stderr.text };
}

function ended(child: ChildProcess, signal: AbortSignal): Promise<number> {
  return new Promise((resolve, reject) => {
    let timer: NodeJS.Timeout | undefined;
    const onAbort = (): void => {
      killGroup(child, "SIGTERM");
      timer = setTimeout(() => killGroup(child, "SIGKILL"), GRACE_MS);
    };
    const settle = (): void => {
      signal.removeEventListener("abort", onAbort);
      clearTimeout(timer);
    };
    signal.addEventListener("abort", onAbort, { once: true });
    child.once("error", (error) => {
      settle();
      reject(error);
    });
    child.once("exit", (code) => {
      settle();
      killGroup(child, "SIGKILL");
      void drained(child).then(() => resolve(code ?? KILLED));
    });
  });
}

const KILLED = 137;

function killGroup({ pid }: ChildProcess, signal: NodeJS.Signals): void {
  try {
    if (pid !== undefined) process.kill(-pid, signal);
  } catch {
    // Nobody is left in it.
  }
}

async function drained(child: ChildProcess): Promise<void> {
  const pipes = child.stdio.filter((pipe) => pipe !== null && pipe !== undefined);
  const closed = new Promise<void>((resolve) => {
    child.once("close", () => {
      resolve();
    });
  });
  child.stdio[LIFELINE]?.destroy();
  const timer = setTimeout(() => {
    for (const pipe of pipes) pipe.destroy();
  }, PIPES_MS);
  await closed;
  clearTimeout(timer);
}

/** The end of what a stream brought. */
class Tail {
  readonly #limit: number;
  #bytes = Buffer.alloc(0);

  constructor(stream: Readable | null, limit: number) {
    this.#limit = limit;
    stream?.on("data", (chunk: Buffer) => {
      this.#bytes = Buffer.concat([this.#bytes, chunk]).subarray(-this.#limit);
    });
    stream?.on("error", () => undefined);
  }

  get text(): string {
    return this.#bytes.toString("utf8");
  }
}
