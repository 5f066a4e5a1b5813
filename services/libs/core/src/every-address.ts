// SPDX-License-Identifier: Apache-2.0
import { lookup } from "node:dns/promises";
import { isIP } from "node:net";

/** All addresses of a host name, as `dns.lookup` with `all` answers. */
export type Lookup = (hostname: string) => Promise<readonly { readonly address: string; readonly family: number }[]>;

const ask: Lookup = (hostname) => lookup(hostname, { all: true });

/**
 * Every host that a name stands for: a headless Service has an address for each of its pods, whatever their number is now.
 * A name with one address stays as it is. Of a name with two families of addresses one family counts, since each pod has both.
 * @returns names and addresses as they stand in URLs, sorted; none where the name is not known
 */
export async function everyAddress(hostname: string, resolve: Lookup = ask): Promise<string[]> {
  if (isIP(hostname.replace(/^\[|\]$/g, "")) !== 0) return [hostname];
  const found = await resolve(hostname).catch(() => []);
  const family = found.some((each) => each.family === 4) ? 4 : 6;
  const addresses = [...new Set(found.filter((each) => each.family === family).map(({ address }) => address))];
  if (addresses.length <= 1) return addresses.length === 0 ? [] : [hostname];
  return addresses.map((address) => (family === 6 ? `[${address}]` : address)).sort();
}
