// SPDX-License-Identifier: Apache-2.0
/** What may be connected to: a name or address, and a port. Addresses of IPv6 need a name. */
export const HOST_AND_PORT = /^[^\s/:]+:\d{1,5}$/u;
export const MOST_REACHED = 64;

/** Of the sandbox's own loopback: there it finds the proxy. */
export const PROXY_PORT = 3128;
const PROXY = `http://127.0.0.1:${PROXY_PORT}`;
const NO_PROXY = "127.0.0.1,localhost";

/** By which programs find the proxy: curl knows the small names only, others the large ones. */
export const PROXY_VARIABLES = {
  HTTP_PROXY: PROXY,
  HTTPS_PROXY: PROXY,
  NO_PROXY,
  http_proxy: PROXY,
  https_proxy: PROXY,
  no_proxy: NO_PROXY,
  NODE_USE_ENV_PROXY: "1",
} as const;

/** For descriptions of tools. */
export function reachedSentence(reach: readonly string[] = []): string {
  if (reach.length === 0) return "There is no network.";
  return `Of the network only ${reach.join(", ")} can be reached, through the proxy that HTTPS_PROXY names.`;
}
