// SPDX-License-Identifier: Apache-2.0
import { randomUUID } from "node:crypto";
import { link, mkdir, readFile, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { sleep } from "@whetstone/core";

const LOOK_AGAIN_MS = 100;

/** One builder of an index among the processes of a machine: a file with the builder's process id. That of a dead process is taken away. */
export class BuildLock implements AsyncDisposable {
  readonly #path: string;

  private constructor(path: string) {
    this.#path = path;
  }

  /** Waits for whoever builds. @throws the signal's reason */
  static async take(folder: string, name: string, signal: AbortSignal): Promise<BuildLock> {
    await mkdir(folder, { recursive: true });
    const path = join(folder, `${name}.lock`);
    while (!(await created(path))) {
      if (await isAbandoned(path)) await rm(path, { force: true });
      else await sleep(LOOK_AGAIN_MS, signal);
    }
    return new BuildLock(path);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await rm(this.#path, { force: true });
  }
}

/** With its content at once: a lock without a process id could never be told from an abandoned one. */
async function created(path: string): Promise<boolean> {
  const own = `${path}-${process.pid}-${randomUUID()}`;
  try {
    await writeFile(own, String(process.pid));
    await link(own, path);
    return true;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "EEXIST") return false;
    throw error;
  } finally {
    await rm(own, { force: true });
  }
}

async function isAbandoned(path: string): Promise<boolean> {
  const text = await readFile(path, "utf8").catch(() => undefined);
  return text !== undefined && !isRunning(Number(text));
}

export function isRunning(pid: number): boolean {
  try {
    return process.kill(pid, 0);
  } catch (error) {
    return (error as NodeJS.ErrnoException).code !== "ESRCH";
  }
}
