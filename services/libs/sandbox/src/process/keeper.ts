// SPDX-License-Identifier: Apache-2.0
import { type ChildProcess, spawn } from "node:child_process";
import { readFileSync, statfsSync } from "node:fs";
import type { Readable } from "node:stream";
import { Deadline, raceSignal, WhetstoneError } from "@whetstone/core";
import { SandboxError } from "../failure.ts";
import { type KeeperArguments, keeperCommand } from "./arguments.ts";
import { killGroup } from "./process-group.ts";

const OPEN_MS = 30_000;
const END_MS = 5_000;
const MAX_MESSAGE = 4_000;

/** The process that holds a sandbox's namespaces and files. The kernel ends every command of the sandbox with it. */
export class Keeper {
  /** Its first process, as the host sees it. */
  readonly pid: number;
  /** Resolves when it and everything in it is gone. */
  readonly ended: Promise<void>;
  readonly #monitor: ChildProcess;
  readonly #mountPoint: string;
  readonly #endsAt: number;
  #isOver = false;

  private constructor(monitor: ChildProcess, pid: number, mountPoint: string, endsAt: number) {
    this.#monitor = monitor;
    this.pid = pid;
    this.#mountPoint = mountPoint;
    this.#endsAt = endsAt;
    this.ended = new Promise((resolve) => {
      const end = (): void => {
        this.#isOver = true;
        resolve();
      };
      if (monitor.exitCode !== null || monitor.signalCode !== null) end();
      else monitor.once("exit", end);
    });
  }

  /** @throws SandboxError START */
  static async start(options: KeeperArguments, signal?: AbortSignal): Promise<Keeper> {
    const [program = "", ...args] = keeperCommand(options);
    // Taken before it counts its own time, so that an end by that is never before this one.
    const endsAt = performance.now() + options.ttlMs;
    const monitor = spawn(program, args, { stdio: ["pipe", "pipe", "pipe", "pipe"], env: SYSTEM_PATH, detached: true });
    monitor.stdin?.on("error", () => undefined);
    monitor.once("exit", () => {
      killGroup(monitor);
    });
    using deadline = Deadline.after(OPEN_MS, signal);
    try {
      const pid = await raceSignal(firstProcess(monitor), deadline.signal);
      monitor.stdin?.end("\n");
      return new Keeper(monitor, pid, options.mountPoint, endsAt);
    } catch (error) {
      killGroup(monitor);
      if (signal?.aborted || error instanceof SandboxError) throw error;
      throw startFailed(WhetstoneError.from(error).message, error);
    }
  }

  /** The kernel ends commands first, so that one's end may be seen before its keeper's. */
  get isOver(): boolean {
    return this.#isOver || isExiting(this.pid);
  }

  /** Of its time to live. */
  get leftMs(): number {
    return Math.max(0, this.#endsAt - performance.now());
  }

  /** Why it is over, where nobody has closed it. */
  get loss(): SandboxError {
    if (performance.now() >= this.#endsAt)
      return new SandboxError("EXPIRED", "the sandbox's time to live is over: open it with a longer ttlMs");
    return new SandboxError(
      "LOST",
      "the sandbox ended by itself: its processes were killed from outside, or memory was short",
    );
  }

  /** The writable files have no room left. */
  get isFull(): boolean {
    try {
      const { bavail, ffree } = statfsSync(`/proc/${this.pid}/root${this.#mountPoint}`);
      return bavail === 0 || ffree === 0;
    } catch {
      return false;
    }
  }

  /** Ends everything; the kernel is through with it when this resolves. */
  async close(): Promise<void> {
    if (this.#isOver) return;
    kill(this.pid);
    const late = setTimeout(() => {
      killGroup(this.#monitor);
    }, END_MS);
    await this.ended;
    clearTimeout(late);
  }
}

/** Programs are the system's, whatever our own environment says. */
export const SYSTEM_PATH = { PATH: "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin" };

/** Waits until it is ready. @throws SandboxError START with what it said. */
async function firstProcess(monitor: ChildProcess): Promise<number> {
  const { promise, resolve, reject } = Promise.withResolvers<number>();
  const texts = { out: "", said: "", info: "" };
  const follow = (stream: unknown, name: keyof typeof texts): void => {
    (stream as Readable).on("data", (data: Buffer) => {
      texts[name] = (texts[name] + String(data)).slice(-MAX_MESSAGE);
      const pid = /"child-pid": (\d+)/u.exec(texts.info)?.[1];
      if (texts.out.includes("ready") && texts.info.includes("}") && pid !== undefined) resolve(Number(pid));
    });
  };
  follow(monitor.stdout, "out");
  follow(monitor.stderr, "said");
  follow(monitor.stdio[3], "info");
  monitor.once("error", (error) => {
    reject(startFailed(error.message, error));
  });
  monitor.once("close", () => {
    reject(startFailed(texts.said.trim()));
  });
  return promise;
}

export function startFailed(why: string, cause?: unknown): SandboxError {
  const missing = /spawn (\S+) ENOENT|exec(?:ute|vp)? .*?(bwrap|nsenter|prlimit|setpriv)/u.exec(why);
  if (missing?.[1]?.endsWith("python3")) {
    return new SandboxError("START", "python3 is not installed (Debian: apt-get install python3)", { cause });
  }
  if (missing === null) return new SandboxError("START", `the sandbox did not start: ${why}`, { cause });
  const message = `${missing[1] ?? missing[2]} is not installed (Debian: apt-get install bubblewrap util-linux)`;
  return new SandboxError("START", message, { cause });
}

/** Or has. */
function isExiting(pid: number): boolean {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, "utf8");
    const flags = stat.slice(stat.lastIndexOf(")") + 2).split(" ")[FLAGS_FIELD];
    return (Number(flags) & PF_EXITING) !== 0;
  } catch {
    return true;
  }
}

/** Of `/proc/<pid>/stat`, counted after the name. */
const FLAGS_FIELD = 6;
const PF_EXITING = 0x4;

function kill(pid: number): void {
  try {
    process.kill(pid, "SIGKILL");
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "ESRCH") throw error;
  }
}
