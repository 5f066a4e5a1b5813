// SPDX-License-Identifier: Apache-2.0
/** One log file a service, rotated by size, one old file kept. */
import { closeSync, existsSync, openSync, readSync, renameSync, statSync, writeSync } from "node:fs";

export const ROTATE_AT_BYTES = 20 * 1024 * 1024;

export interface LogFile {
  readonly path: string;
  write(chunk: Uint8Array): void;
  close(): void;
}

/** Appends to `path`. At `rotateAt` bytes the file becomes `<path>.1` and a new one begins. */
export function openLogFile(path: string, rotateAt = ROTATE_AT_BYTES): LogFile {
  let file = openSync(path, "a");
  let size = statSync(path).size;
  let open = true;
  let dropped = 0;
  const append = (chunk: Uint8Array): void => {
    if (size > 0 && size + chunk.length > rotateAt) rotate();
    size += writeSync(file, chunk);
  };
  const rotate = (): void => {
    closeSync(file);
    renameSync(path, `${path}.1`);
    file = openSync(path, "a");
    size = 0;
  };
  return {
    path,
    write: (chunk) => {
      if (!open) return; // somebody outside the service's group still writes
      try {
        if (dropped > 0) append(Buffer.from(`\n[whet] ${dropped} bytes of this log were dropped: the disk was full\n`));
        dropped = 0;
        append(chunk);
      } catch {
        // A full disk must not end the supervisor. Once there is space, the log says what is missing.
        dropped += chunk.length;
      }
    },
    close: () => {
      if (open) closeSync(file);
      open = false;
    },
  };
}

const TAIL_BYTES = 16 * 1024;

/** The last lines of a log, for an error message. */
export function tailOf(path: string, lines: number): string[] {
  if (!existsSync(path)) return [];
  const size = statSync(path).size;
  const start = Math.max(0, size - TAIL_BYTES);
  const buffer = Buffer.alloc(size - start);
  const file = openSync(path, "r");
  try {
    readSync(file, buffer, 0, buffer.length, start);
  } finally {
    closeSync(file);
  }
  return buffer.toString("utf8").trimEnd().split("\n").slice(-lines);
}
