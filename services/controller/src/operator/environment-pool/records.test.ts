// SPDX-License-Identifier: Apache-2.0
import { create, toBinary } from "@bufbuild/protobuf";
import { ensurePlatform, type Nats, openKv, poolLoadSubject, POOLS_BUCKET } from "@whetstone/messaging";
import { PoolLoadSchema, PoolRecordSchema } from "@whetstone/proto/events/v1/events";
import { silentLogger } from "@whetstone/telemetry";
import { startNats, type TestNats, waitFor } from "@whetstone/testkit";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { fixedHost } from "../../pools/environment-hosts.ts";
import { PoolLoads } from "./loads.ts";
import { PoolRecords } from "./records.ts";

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

const lead = (epoch: bigint, assert: () => void = () => undefined) => ({ epoch, assert });
const runner = { id: "a", address: "10.0.0.1:9081", slots: 4, draining: false };
const FIELDS = { runners: [runner], wantedRunners: 1 };

async function stored(pool: string) {
  return (await openKv(nats, POOLS_BUCKET, PoolRecordSchema)).get(pool);
}

describe("the record of a pool", () => {
  it("is written when it changes, and now and then without", async () => {
    const records = await PoolRecords.open(nats, lead(3n));
    await records.write("web", FIELDS, 0);
    const first = await stored("web");
    expect(first?.value).toMatchObject({ epoch: 3n, runners: [runner] });
    await records.write("web", FIELDS, 1_000);
    expect((await stored("web"))?.revision).toBe(first?.revision);
    await records.write("web", FIELDS, 61_000);
    expect((await stored("web"))?.revision).not.toBe(first?.revision);
  });

  it("is not taken from a leader that was replaced, nor from one that knows that it was", async () => {
    const [old, next] = [await PoolRecords.open(nats, lead(5n)), await PoolRecords.open(nats, lead(6n))];
    await old.write("two", FIELDS, 0);
    await next.write("two", FIELDS, 0);
    await expect(old.write("two", { runners: [], wantedRunners: 0 }, 1)).rejects.toMatchObject({ code: "STALE_EPOCH" });
    const left = () => {
      throw new Error("leads no longer");
    };
    const gone = await PoolRecords.open(nats, lead(9n, left));
    await expect(gone.write("two", { runners: [], wantedRunners: 0 }, 1)).rejects.toThrow("leads no longer");
    expect((await stored("two"))?.value).toMatchObject({ epoch: 6n, runners: [runner] });
  });

  it("goes with its pool", async () => {
    const records = await PoolRecords.open(nats, lead(7n));
    await records.write("kept", FIELDS, 0);
    await records.write("gone", FIELDS, 0);
    await records.keepOnly(new Set(["kept"]));
    expect([await stored("gone"), (await stored("kept"))?.value.epoch]).toEqual([undefined, 7n]);
  });
});

describe("what orchestrators tell", () => {
  it("adds up, and is forgotten when one is not heard of any more", async () => {
    using loads = new PoolLoads(nats, silentLogger);
    await nats.flush();
    const tell = (orchestrator: string, sessions: number): void => {
      const load = create(PoolLoadSchema, { orchestrator, pool: "web", runners: [{ id: "a", sessions }] });
      nats.publish(poolLoadSubject("web"), toBinary(PoolLoadSchema, load));
    };
    nats.publish(poolLoadSubject("web"), new Uint8Array([255])); // Whatever it is, it ends nothing.
    tell("one", 2);
    tell("other", 3);
    await waitFor(() => loads.sessions("web", Date.now()).get("a") === 5);
    tell("one", 1);
    await waitFor(() => loads.sessions("web", Date.now()).get("a") === 4);
    expect(loads.sessions("else", Date.now()).size).toBe(0);
    expect(loads.sessions("web", Date.now() + 11_000).size).toBe(0);
  });
});

describe("on one machine", () => {
  it("there is the pool default and no other", async () => {
    const find = fixedHost(new Map([["default", "127.0.0.1:1"]]), undefined);
    const { violation } = await find("web");
    expect(violation).toEqual({ path: "environment.pool", reason: 'unknown pool "web"; known: default' });
    const { client } = await find("default");
    expect(client).toBeDefined();
    await client?.[Symbol.asyncDispose]();
  });
});
