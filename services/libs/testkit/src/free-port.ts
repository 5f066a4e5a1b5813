// SPDX-License-Identifier: Apache-2.0
import { randomInt } from "node:crypto";
import { createServer } from "node:net";

/** Below the ports that systems give to connections: one of those would be taken again before anybody listens. */
const [FIRST, LAST] = [15_000, 32_000];
const TRIES = 20;

/** A loopback port that was free a moment ago. Prefer servers that bind port 0 themselves. */
export async function freePort(): Promise<number> {
  for (let tries = 1; ; tries++) {
    const port = randomInt(FIRST, LAST);
    try {
      await listenAndClose(port);
      return port;
    } catch (error) {
      if (tries === TRIES) throw error;
    }
  }
}

async function listenAndClose(port: number): Promise<void> {
  const server = createServer();
  await new Promise<void>((resolve, reject) => {
    server.once("error", reject);
    server.listen(port, "127.0.0.1", resolve);
  });
  await new Promise((resolve) => server.close(resolve));
}
