// SPDX-License-Identifier: Apache-2.0
import { Objm } from "@nats-io/obj";
import { startNats, type TestNats } from "@whetstone/testkit";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { openBundleStore } from "./bundles.ts";
import { sha256Hex } from "./claims/claim.ts";
import type { Nats } from "./connect.ts";
import { BUNDLES_BUCKET, ensurePlatform } from "./topology.ts";

let server: TestNats;
let nats: Nats;
beforeAll(async () => {
  server = await startNats();
  nats = await server.connect();
  await ensurePlatform(nats);
});
afterAll(async () => {
  await nats[Symbol.asyncDispose]();
  await server[Symbol.asyncDispose]();
});

describe("the bundle store", () => {
  it("keeps code under its digest, also 16 MiB of it, and takes it twice", async () => {
    const store = openBundleStore(nats);
    const code = new Uint8Array(16 * 1024 * 1024).fill(42);
    const digest = sha256Hex(code);
    expect([await store.has(digest), await store.get(digest)]).toEqual([false, undefined]);
    await store.put(digest, code);
    await store.put(digest, code);
    expect(await store.has(digest)).toBe(true);
    expect(sha256Hex((await store.get(digest)) ?? new Uint8Array())).toBe(digest);
  });

  it("refuses code under another's name, on both ways", async () => {
    const store = openBundleStore(nats);
    const digest = "0".repeat(64);
    await expect(store.put(digest, new Uint8Array([1]))).rejects.toMatchObject({ code: "INVALID_ARGUMENT" });
    await (await new Objm(nats).open(BUNDLES_BUCKET)).putBlob({ name: digest }, new Uint8Array([1]));
    await expect(store.get(digest)).rejects.toMatchObject({ code: "DATA_LOSS" });
  });
});
