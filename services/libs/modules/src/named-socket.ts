// SPDX-License-Identifier: Apache-2.0
// One socket that leads to several servers: a connection begins with a line that names the one it is for.
import { connect, createServer, type Server, type Socket } from "node:net";
import type { Duplex } from "node:stream";
import { splice } from "@whetstone/sandbox";

const MOST_NAME_BYTES = 1024;
const NAME_MS = 5_000;
const NEWLINE = 0x0a;

/** @param open  a new connection to the server of that name; undefined: there is none */
export function namedServer(open: (name: string) => Duplex | undefined): Server {
  return createServer({ noDelay: true, allowHalfOpen: true }, (near) => {
    near.on("error", () => undefined);
    const timer = setTimeout(() => near.destroy(), NAME_MS);
    near.once("close", () => {
      clearTimeout(timer);
    });
    readName(near, (name) => {
      clearTimeout(timer);
      const far = open(name);
      if (far === undefined) near.destroy();
      else splice(near, far);
    });
  });
}

/** Reads the first line and leaves what comes after it. A line that is too long is no name: the connection ends. */
function readName(near: Socket, onName: (name: string) => void): void {
  let read = Buffer.alloc(0);
  const onData = (chunk: Buffer): void => {
    read = Buffer.concat([read, chunk]);
    const end = read.indexOf(NEWLINE);
    if (end < 0 && read.length <= MOST_NAME_BYTES) return;
    near.off("data", onData);
    near.pause();
    if (end < 0) {
      near.destroy();
      return;
    }
    if (end + 1 < read.length) near.unshift(read.subarray(end + 1));
    onName(read.subarray(0, end).toString());
  };
  near.on("data", onData);
}

/** A connection through such a socket. */
export function connectNamed(path: string, name: string): Socket {
  const socket = connect({ path, allowHalfOpen: true });
  socket.write(`${name}\n`);
  return socket;
}
