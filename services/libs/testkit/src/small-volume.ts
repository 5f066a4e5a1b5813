// SPDX-License-Identifier: Apache-2.0
import { execFileSync } from "node:child_process";
import { closeSync, mkdtempSync, openSync, rmdirSync, rmSync, writeSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

/** A file system of its own that can be full for real. */
export interface SmallVolume extends Disposable {
  readonly path: string;
  /** Takes all space that is left. */
  fill(): void;
  /** Gives it back. */
  free(): void;
}

const MIB = 1024 * 1024;

/** Mounting needs rights that a container or a laptop may not give: such tests are skipped there. */
export function canMountVolumes(): boolean {
  if (process.platform !== "linux" || process.getuid?.() !== 0) return false;
  try {
    smallVolume(1)[Symbol.dispose]();
    return true;
  } catch {
    return false;
  }
}

/** A tmpfs of this size. */
export function smallVolume(mebibytes: number): SmallVolume {
  const path = mkdtempSync(join(tmpdir(), "whetstone-volume-"));
  const filler = join(path, "filler");
  execFileSync("mount", ["-t", "tmpfs", "-o", `size=${mebibytes}m`, "tmpfs", path], { stdio: "pipe" });
  return {
    path,
    fill: () => fill(filler),
    free: () => rmSync(filler, { force: true }),
    [Symbol.dispose]() {
      execFileSync("umount", ["--lazy", path], { stdio: "pipe" });
      rmdirSync(path);
    },
  };
}

function fill(path: string): void {
  const file = openSync(path, "a");
  try {
    for (let bytes = MIB; bytes >= 1; bytes /= 2) writeUntilFull(file, Buffer.alloc(bytes));
  } finally {
    closeSync(file);
  }
}

function writeUntilFull(file: number, chunk: Buffer): void {
  try {
    for (;;) writeSync(file, chunk);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "ENOSPC") throw error;
  }
}
