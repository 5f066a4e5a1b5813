// SPDX-License-Identifier: Apache-2.0
import { EpochRecordSchema, JobEventSchema } from "@whetstone/proto/events/v1/events";
import { canMountVolumes, smallVolume, startNats, waitFor } from "@whetstone/testkit";
import { expect, it } from "vitest";
import {
  ensurePlatform,
  eventSubject,
  failedWrite,
  guardNats,
  LEDGER_BUCKET,
  type NatsRefusal,
  openKv,
  openStreams,
  writeRefusal,
} from "./index.ts";

const needsMounts = it.skipIf(!canMountVolumes());

needsMounts(
  "a NATS volume that was full: the server says that it refuses writes, and is restarted once there is space",
  async () => {
    using volume = smallVolume(24);
    await using nats = await startNats({ storeDir: volume.path });
    await using nc = await nats.connect();
    await ensurePlatform(nc);
    const streams = await openStreams(nc);
    const ledger = await openKv(nc, LEDGER_BUCKET, EpochRecordSchema);
    const publish = (id: string, timeoutMs: number) =>
      streams.publish(
        eventSubject("fl-1", "step"),
        JobEventSchema,
        { job: "x".repeat(8192) },
        { msgId: id, timeoutMs },
      );

    const stop = new AbortController();
    const said: (NatsRefusal | undefined)[] = [];
    let restarts = 0;
    const guard = guardNats({
      monitor: nats.monitor,
      storeDirectory: volume.path,
      signal: stop.signal,
      lookMs: 100,
      onChange: (refusal) => said.push(refusal),
      restart: async () => {
        restarts++;
        await nats.restart();
      },
    });

    expect(await writeRefusal(nats.monitor)).toBeUndefined();
    expect(await failedWrite(nc)).toBeUndefined();
    volume.fill();
    await expect(publish("a", 1000)).rejects.toThrow();
    // A job that reads its books then waits as well; it does not fail.
    await expect(ledger.keys("fl-1")).rejects.toMatchObject({ code: "UNAVAILABLE" });
    await waitFor(() => said.length > 0);
    expect(said[0]?.why).toMatch(/WS_EVENT.*no space left on device/);
    expect(said[0]?.freeBytes).toBeLessThan(said[0]?.neededBytes ?? 0);
    expect(await failedWrite(nc)).toContain("ws-ledger");
    expect(restarts).toBe(0); // It would only fail again.

    volume.free();
    expect(await publish("b", 15_000)).toMatchObject({ duplicate: false });
    await ledger.put("fl-1.epoch", { epoch: 1n });
    expect(restarts).toBe(1);
    await waitFor(() => said.at(-1) === undefined, { timeoutMs: 15_000 });
    expect(await failedWrite(nc)).toBeUndefined();
    stop.abort();
    await guard;
  },
  40_000,
);

it("a server that does not answer refuses nothing", async () => {
  expect(await writeRefusal("http://127.0.0.1:1")).toBeUndefined();
});
