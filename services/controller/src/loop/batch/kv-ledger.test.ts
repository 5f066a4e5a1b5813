// SPDX-License-Identifier: Apache-2.0
import { create, fromBinary, toBinary } from "@bufbuild/protobuf";
import { ensurePlatform, type Nats } from "@whetstone/messaging";
import { BatchManifestSchema, DispatchRecordSchema, PolicyRecordSchema } from "@whetstone/proto/events/v1/events";
import { startNats, type TestNats } from "@whetstone/testkit";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { MAX_MANIFEST_BYTES } from "../../jobs/validation/manifest-size.ts";
import { KvLedger } from "./kv-ledger.ts";

const manifest = (step: number, epoch: bigint) => create(BatchManifestSchema, { job: "j", step, epoch });

describe("KvLedger", () => {
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

  it("refuses every write of a controller whose epoch is over", async () => {
    const former = await KvLedger.take(nats, "fenced", "a");
    const present = await KvLedger.take(nats, "fenced", "b");
    expect(present.epoch).toBe(former.epoch + 1n);
    const policy = create(PolicyRecordSchema, { job: "fenced", path: "/w" });
    const dispatch = create(DispatchRecordSchema, { job: "fenced", samples: [1] });
    for (const write of [
      () => former.savePolicy(policy),
      () => former.saveDispatch(dispatch),
      () => former.createManifest(manifest(0, former.epoch)),
    ])
      await expect(write()).rejects.toMatchObject({ code: "STALE_EPOCH" });
    await present.savePolicy(policy);
    expect(await present.policy()).toMatchObject({ path: "/w" });
  });

  it("keeps the first manifest of a step, whoever asks again (I1)", async () => {
    const first = await KvLedger.take(nats, "batches", "a");
    const bytes = await first.createManifest(manifest(0, first.epoch));
    const second = await KvLedger.take(nats, "batches", "b");
    const again = await second.createManifest(manifest(0, second.epoch));
    expect(Buffer.from(again).equals(Buffer.from(bytes))).toBe(true);
    expect(fromBinary(BatchManifestSchema, again).epoch).toBe(first.epoch);
  });

  it("names the steps that have a manifest, and gives its bytes as they were stored", async () => {
    const ledger = await KvLedger.take(nats, "many", "a");
    expect(await ledger.collected()).toEqual(new Set());
    const entries = Array.from({ length: 3_000 }, (_, i) => ({ episodeId: `many/g${i}/s0`, sequence: BigInt(i) }));
    const large = create(BatchManifestSchema, { job: "many", step: 10, epoch: ledger.epoch, entries });
    const bytes = await ledger.createManifest(large);
    await ledger.createManifest(manifest(9, ledger.epoch));
    expect(await ledger.collected()).toEqual(new Set([9, 10]));
    expect(Buffer.from(bytes).equals(toBinary(BatchManifestSchema, large))).toBe(true);
    expect(await ledger.manifest(11)).toBeUndefined();
  });

  it("takes a manifest as large as a job's may be", async () => {
    const ledger = await KvLedger.take(nats, "large", "a");
    const voided = Array.from({ length: 65_536 }, () => ({ reason: "x".repeat(MAX_MANIFEST_BYTES / 65_536 - 5) }));
    const stored = await ledger.createManifest(create(BatchManifestSchema, { job: "large", voided }));
    expect(stored.length).toBeGreaterThan(0.98 * MAX_MANIFEST_BYTES);
    expect(stored.length).toBeLessThanOrEqual(MAX_MANIFEST_BYTES);
  });

  it("reads dispatches in order of their steps, up to the first gap", async () => {
    const ledger = await KvLedger.take(nats, "order", "a");
    for (const step of [0, 1, 2, 10, 3])
      await ledger.saveDispatch(create(DispatchRecordSchema, { job: "order", step }));
    expect((await ledger.dispatches()).map((record) => record.step)).toEqual([0, 1, 2, 3]);
  });
});
