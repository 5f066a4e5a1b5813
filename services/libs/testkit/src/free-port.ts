// SPDX-License-Identifier: Apache-2.0
import { type AddressInfo, createServer } from "node:net";

/** A loopback port that was free a moment ago. Prefer servers that bind port 0 themselves. */
export async function freePort(): Promise<number> {
  const server = createServer();
  await new Promise<void>((resolve, reject) => {
    server.once("error", reject);
    server.listen(0, "127.0.0.1", resolve);
  });
  const { port } = server.address() as AddressInfo;
  await new Promise((resolve) => server.close(resolve));
  return port;
}
