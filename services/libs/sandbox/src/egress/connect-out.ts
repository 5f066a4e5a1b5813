// SPDX-License-Identifier: Apache-2.0
import { lookup } from "node:dns/promises";
import { BlockList, connect, isIPv6, type Socket } from "node:net";
import { WhetstoneError } from "@whetstone/core";

const CONNECT_MS = 10_000;

/** Where clouds tell a machine its credentials: a name that somebody else answers for must not lead there. */
const NEVER = new BlockList();
NEVER.addSubnet("169.254.0.0", 16);
NEVER.addSubnet("fe80::", 10, "ipv6");
NEVER.addAddress("fd00:ec2::254", "ipv6");
NEVER.addAddress("100.100.100.200");

/** @throws WhetstoneError FAILED_PRECONDITION for addresses of the machine's own link, UNAVAILABLE where nobody answers */
export async function connectOut(host: string, port: number): Promise<Socket> {
  const addresses = await lookup(host, { all: true }).catch((error: unknown) => {
    throw new WhetstoneError("UNAVAILABLE", `${host} was not found: ${WhetstoneError.from(error).message}`);
  });
  if (addresses.some(({ address }) => NEVER.check(address, isIPv6(address) ? "ipv6" : "ipv4")))
    throw new WhetstoneError("FAILED_PRECONDITION", `${host} is an address that no sandbox may reach`);
  const [first] = addresses;
  const far = connect({
    host,
    port,
    allowHalfOpen: true,
    // What was looked at, and no later answer.
    lookup: (_host, { all }, callback) => {
      if (all) callback(null, addresses);
      else callback(null, first?.address ?? "", first?.family);
    },
  });
  return await connected(far, `${host}:${port}`);
}

function connected(far: Socket, name: string): Promise<Socket> {
  const { promise, resolve, reject } = Promise.withResolvers<Socket>();
  const fail = (why: string): void => {
    far.destroy();
    reject(new WhetstoneError("UNAVAILABLE", `${name} ${why}`));
  };
  const timer = setTimeout(() => {
    fail(`does not answer within ${CONNECT_MS / 1000} s`);
  }, CONNECT_MS);
  far.once("connect", () => {
    resolve(far);
  });
  far.on("error", ({ message }) => {
    fail(`cannot be reached: ${message}`);
  });
  return promise.finally(() => {
    clearTimeout(timer);
  });
}
