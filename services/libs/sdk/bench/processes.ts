// SPDX-License-Identifier: Apache-2.0
import { type ChildProcess, spawn, spawnSync } from "node:child_process";
import { readFileSync } from "node:fs";

/** Where a process may run. */
export type Core = 0 | 1;

export interface StartOptions {
  /** Absent: wherever the kernel puts it. */
  readonly core?: Core | undefined;
  readonly flags?: readonly string[];
  readonly env?: Readonly<Record<string, string>>;
}

export interface Started extends AsyncDisposable {
  readonly child: ChildProcess;
  readonly pid: number;
  /** What the pattern's first group found in its output. */
  readonly found: string;
}

/** `taskset` is there and there is more than one core. */
export const canPin = spawnSync("taskset", ["-c", "1", "true"]).status === 0;

/** Starts a script of ours and waits for its word; it is stopped when disposed of. */
export async function start(
  file: string,
  args: readonly string[],
  ready: RegExp,
  { core, flags = [], env = {} }: StartOptions = {},
): Promise<Started> {
  const command = [process.execPath, ...flags, file, ...args];
  const pinned = core !== undefined && canPin ? ["taskset", "-c", String(core), ...command] : command;
  const stdio = ["pipe", "pipe", "pipe"] as const;
  const child = spawn(pinned[0] as string, pinned.slice(1), { stdio: [...stdio], env: { ...process.env, ...env } });
  const found = await wordOf(child, ready);
  return {
    child,
    pid: child.pid as number, // taskset becomes the command: the id stays.
    found,
    [Symbol.asyncDispose]: () => stop(child),
  };
}

function wordOf(child: ChildProcess, ready: RegExp): Promise<string> {
  return new Promise((resolve, reject) => {
    let text = "";
    const read = (chunk: Buffer): void => {
      text = `${text}${chunk.toString()}`.slice(-20_000);
      const word = ready.exec(text)?.[1];
      if (word !== undefined) resolve(word);
    };
    child.stdout?.on("data", read);
    child.stderr?.on("data", read);
    child.once("exit", (code) => {
      reject(new Error(`ended with ${code} before it was ready:\n${text}`));
    });
  });
}

async function stop(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const ended = new Promise((resolve) => child.once("exit", resolve));
  child.stdin?.end();
  child.kill("SIGTERM");
  const force = setTimeout(() => child.kill("SIGKILL"), 10_000);
  await ended;
  clearTimeout(force);
}

/** Of /proc/<pid>/stat: 100 a second on Linux. */
const TICK_MS = 10;

/** User and system time of a whole process so far, milliseconds. */
export function cpuMs(pid: number): number {
  const fields = readFileSync(`/proc/${pid}/stat`, "utf8").split(") ")[1]?.split(" ") ?? [];
  return (Number(fields[11]) + Number(fields[12])) * TICK_MS;
}

/** Resident memory, KiB. */
export function residentKiB(pid: number): number {
  return Number(/VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${pid}/status`, "utf8"))?.[1] ?? 0);
}
