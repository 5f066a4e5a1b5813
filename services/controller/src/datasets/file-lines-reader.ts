// SPDX-License-Identifier: Apache-2.0
// Writes an ordinary file to standard output. A process of its own, since a mount that hangs holds whoever asks it for ever,
// be it a thread: this one can be given up. What is wrong goes to standard error as JSON.
import { constants, createReadStream, fstatSync, openSync, statSync, type Stats } from "node:fs";

const path = process.argv[2] ?? "";

function mustBeFile(stats: Stats): void {
  if (!stats.isFile()) throw new Error("is no ordinary file: a folder, a pipe, a socket or a device");
}

try {
  // Before it is opened: to open a pipe waits for somebody who writes, and to open a device may do anything.
  mustBeFile(statSync(path));
  const descriptor = openSync(path, constants.O_RDONLY | constants.O_NONBLOCK);
  mustBeFile(fstatSync(descriptor));
  createReadStream("", { fd: descriptor }).on("error", fail).pipe(process.stdout);
} catch (error) {
  fail(error as NodeJS.ErrnoException);
}

function fail({ code, message }: NodeJS.ErrnoException): void {
  process.stderr.write(JSON.stringify({ code, message }));
  process.exitCode = 2;
}
