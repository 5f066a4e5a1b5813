// SPDX-License-Identifier: Apache-2.0
import type { Duplex } from "node:stream";

/** Two ends of one connection. */
export function splice(near: Duplex, far: Duplex): void {
  for (const [socket, other] of [
    [near, far],
    [far, near],
  ] as const) {
    socket.on("error", () => undefined);
    socket.once("close", () => other.destroy());
  }
  near.pipe(far).pipe(near);
}
