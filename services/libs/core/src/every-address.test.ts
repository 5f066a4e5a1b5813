// SPDX-License-Identifier: Apache-2.0
import { expect, it } from "vitest";
import { everyAddress, type Lookup } from "./every-address.ts";

const answering =
  (...addresses: string[]): Lookup =>
  () =>
    Promise.resolve(addresses.map((address) => ({ address, family: address.includes(":") ? 6 : 4 })));

it.each<[string, Lookup, string[]]>([
  ["is every pod of a headless Service", answering("10.0.0.9", "10.0.0.10"), ["10.0.0.10", "10.0.0.9"]],
  ["is a name with one address", answering("10.0.0.9"), ["gateways"]],
  [
    "counts a pod with addresses of two families once",
    answering("fd00::1", "10.0.0.9", "fd00::2", "10.0.0.8"),
    ["10.0.0.8", "10.0.0.9"],
  ],
  ["is written as URLs have it", answering("fd00::2", "fd00::1"), ["[fd00::1]", "[fd00::2]"]],
  ["is nobody where nobody knows the name", () => Promise.reject(new Error("ENOTFOUND")), []],
])("%s", async (_name, resolve, expected) => {
  expect(await everyAddress("gateways", resolve)).toEqual(expected);
});

it("asks nobody about an address", async () => {
  const never: Lookup = () => Promise.reject(new Error("asked"));
  expect(await everyAddress("127.0.0.1", never)).toEqual(["127.0.0.1"]);
  expect(await everyAddress("[::1]", never)).toEqual(["[::1]"]);
});
