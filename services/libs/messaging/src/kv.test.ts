// SPDX-License-Identifier: Apache-2.0
import { WhetstoneError } from "@whetstone/core";
import { type EpochRecord, EpochRecordSchema } from "@whetstone/proto/events/v1/events";
import { startNats, type TestNats } from "@whetstone/testkit";
import { afterAll, beforeAll, expect, it } from "vitest";
import { ensurePlatform, type KvChange, LEDGER_BUCKET, type Nats, openKv, type TypedKv } from "./index.ts";

let nats: TestNats;
let nc: Nats;
let kv: TypedKv<typeof EpochRecordSchema>;

beforeAll(async () => {
  nats = await startNats();
  nc = await nats.connect();
  await ensurePlatform(nc);
  await ensurePlatform(nc); // Safe to repeat.
  kv = await openKv(nc, LEDGER_BUCKET, EpochRecordSchema);
});

afterAll(async () => {
  await nc[Symbol.asyncDispose]();
  await nats[Symbol.asyncDispose]();
});

async function code(work: Promise<unknown>): Promise<string> {
  const error: unknown = await work.then(
    () => undefined,
    (thrown: unknown) => thrown,
  );
  expect(error).toBeInstanceOf(WhetstoneError);
  return (error as WhetstoneError).code;
}

it("creates once: of many writers one wins, the others get ALREADY_EXISTS", async () => {
  const writers = Array.from({ length: 8 }, (_, i) => kv.create("race.batch.1", { epoch: BigInt(i + 1) }));
  const results = await Promise.allSettled(writers);
  const losers = results.filter((r) => r.status === "rejected").map((r) => (r.reason as WhetstoneError).code);
  expect(losers).toEqual(Array<string>(7).fill("ALREADY_EXISTS"));
  const winner = results.findIndex((r) => r.status === "fulfilled");
  expect((await kv.get("race.batch.1"))?.value.epoch).toBe(BigInt(winner + 1));
});

it("creates again after a delete", async () => {
  await kv.create("again", { epoch: 1n });
  await kv.delete("again");
  expect(await kv.get("again")).toBeUndefined();
  expect(await kv.create("again", { epoch: 2n })).toBeGreaterThan(0);
});

it("compares and sets: a stale revision is CONFLICT and changes nothing", async () => {
  const first = await kv.create("cas", { epoch: 1n });
  const second = await kv.update("cas", { epoch: 2n }, first);
  expect(await code(kv.update("cas", { epoch: 3n }, first))).toBe("CONFLICT");
  expect(await code(kv.delete("cas", { revision: first }))).toBe("CONFLICT");
  expect(await kv.get("cas")).toMatchObject({ revision: second, value: { epoch: 2n } });
});

it("changes what is there, or what is not, whoever else writes meanwhile", async () => {
  const add = () => kv.change("change", (former) => ({ epoch: (former?.epoch ?? 0n) + 1n }));
  const written = await Promise.all(Array.from({ length: 8 }, add));
  expect(written.map(({ value }) => Number(value.epoch)).sort()).toEqual([1, 2, 3, 4, 5, 6, 7, 8]);
  const last = written.find(({ value }) => value.epoch === 8n);
  expect(await kv.get("change")).toEqual(last);
  await kv.delete("change");
  expect(await add()).toMatchObject({ key: "change", value: { epoch: 1n } });
});

it("writes nothing when the change refuses, and gives up on a key that never stands still", async () => {
  await kv.put("restless", { epoch: 1n });
  const refused = new WhetstoneError("STALE_EPOCH", "no");
  expect(await code(kv.change("restless", () => Promise.reject(refused)))).toBe("STALE_EPOCH");
  let asked = 0;
  const change = kv.change("restless", async () => {
    await kv.put("restless", { epoch: BigInt(++asked) });
    return { epoch: 0n };
  });
  expect(await code(change)).toBe("CONFLICT");
  expect((await kv.get("restless"))?.value.epoch).toBe(20n);
});

it("lists keys below a prefix by whole tokens", async () => {
  for (const key of ["k1.batch.1", "k1.batch.2", "k1.batches", "k10.batch.1"]) await kv.put(key, {});
  expect(await kv.keys("k1.batch")).toEqual(["k1.batch.1", "k1.batch.2"]);
  expect(await kv.keys("k1")).toEqual(["k1.batch.1", "k1.batch.2", "k1.batches"]);
  expect(await kv.keys("nothing")).toEqual([]);
  expect(await kv.keys()).toEqual(expect.arrayContaining(["k1.batches", "k10.batch.1"]));
});

it("watches present values, then changes and deletes, and ends at the signal", async () => {
  await kv.put("w.a", { epoch: 1n });
  await kv.put("w.a", { epoch: 2n });
  await kv.put("other", { epoch: 9n });
  const stop = new AbortController();
  const changes: KvChange<EpochRecord>[] = [];
  const watching = (async () => {
    for await (const change of kv.watch("w", stop.signal)) changes.push(change);
  })();
  await expect.poll(() => changes.length).toBe(1);
  await kv.put("w.b", { epoch: 3n });
  await kv.delete("w.a");
  await expect.poll(() => changes.length).toBe(3);
  stop.abort(new WhetstoneError("CANCELLED", "over"));
  expect(await code(watching)).toBe("CANCELLED");
  expect(changes.map(({ kind, key }) => `${kind} ${key}`)).toEqual(["put w.a", "put w.b", "delete w.a"]);
  expect(changes[0]).toMatchObject({ value: { epoch: 2n } });
});

it("says that a bucket is missing, and that a value is of another kind", async () => {
  expect(await code(openKv(nc, "no-such-bucket", EpochRecordSchema))).toBe("NOT_FOUND");
  const raw = await openKv(nc, LEDGER_BUCKET, EpochRecordSchema);
  expect(await raw.get("never.written")).toBeUndefined();
});
