// SPDX-License-Identifier: Apache-2.0
import { everyAddress } from "@whetstone/core";

/** The origins that URLs stand for: a host name stands for all of its addresses. */
export async function everyReplica(urls: readonly string[]): Promise<string[]> {
  const expanded = urls.map(async (url) => {
    const { protocol, hostname, port } = new URL(url);
    const hosts = await everyAddress(hostname);
    return hosts.map((host) => `${protocol}//${host}${port && `:${port}`}`);
  });
  return (await Promise.all(expanded)).flat();
}
