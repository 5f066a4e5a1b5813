// SPDX-License-Identifier: Apache-2.0
import { create } from "@bufbuild/protobuf";
import { DescribeResponseSchema } from "@whetstone/proto/environments/v1/environments";
import { expect, it } from "vitest";
import { fixedPools } from "./fixed-pools.ts";

const addresses = new Map([
  ["default", "127.0.0.1:1"],
  ["python", "127.0.0.1:2"],
]);

function describeAt(address: string) {
  const slots = address.endsWith("2") ? 64 : 2048;
  return { describe: () => Promise.resolve(create(DescribeResponseSchema, { slots, slotsUsed: 10 })) };
}

it("leads each pool's episodes to its own env-runner, and counts its slots less those of others", async () => {
  const pools = fixedPools(addresses, { gate: { active: 4 }, connect: describeAt });
  expect(pools.of("python").lease()).toMatchObject({ addresses: ["127.0.0.1:2"], elastic: false });
  expect([await pools.of("default").slots(), await pools.of("python").slots()]).toEqual([2042, 58]);
});

it("keeps jobs of a pool that is not there waiting", async () => {
  const gone = fixedPools(addresses, { gate: { active: 0 }, connect: describeAt }).of("gone");
  expect([gone.isOpen, gone.lease(), await gone.slots()]).toEqual([false, undefined, undefined]);
});
