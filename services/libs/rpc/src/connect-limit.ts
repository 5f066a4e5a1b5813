// SPDX-License-Identifier: Apache-2.0
// gRPC gives a connection attempt no time of its own: a SYN to an address that went away, such as a pod that was replaced
// a moment ago, is repeated by the kernel for a minute or more, and every call waits behind it. Ended early, the next
// attempt asks for the address anew.
import { subscribe } from "node:diagnostics_channel";
import type { Socket } from "node:net";

/** Time of one attempt by port, milliseconds, with the number of clients that dial it. */
const limits = new Map<number, { ms: number; clients: number }>();
let watching = false;

/** Bounds attempts to connect to the port of `address` ("host:port"), until the returned function is called. */
export function limitAttempts(address: string, ms: number): () => void {
  const port = Number(address.slice(address.lastIndexOf(":") + 1));
  const known = limits.get(port);
  limits.set(port, { ms: Math.min(ms, known?.ms ?? ms), clients: (known?.clients ?? 0) + 1 });
  if (!watching) subscribe("net.client.socket", (message) => watchSocket((message as { socket: Socket }).socket));
  watching = true;
  return () => {
    const entry = limits.get(port);
    if (entry && --entry.clients <= 0) limits.delete(port);
  };
}

function watchSocket(socket: Socket): void {
  socket.once("connectionAttempt", (address: string, port: number) => {
    const limit = limits.get(port);
    if (limit === undefined) return;
    const timer = setTimeout(() => {
      socket.destroy(new Error(`no answer from ${address}:${port} within ${limit.ms} ms`));
    }, limit.ms);
    timer.unref();
    const stop = (): void => clearTimeout(timer);
    socket.once("connect", stop).once("close", stop);
  });
}
