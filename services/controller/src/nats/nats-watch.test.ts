// SPDX-License-Identifier: Apache-2.0
import { create } from "@bufbuild/protobuf";
import { ensurePlatform, eventSubject, openStreams } from "@whetstone/messaging";
import { JobEventSchema } from "@whetstone/proto/events/v1/events";
import { type Job, JobPhase, JobSchema } from "@whetstone/proto/jobs/v1/jobs";
import { silentLogger } from "@whetstone/telemetry";
import { canMountVolumes, smallVolume, startNats, waitFor } from "@whetstone/testkit";
import { expect, it } from "vitest";
import { NatsWatch } from "./nats-watch.ts";

const jobIn = (phase: JobPhase): Job => create(JobSchema, { status: { phase, reason: "Training" } });

it.skipIf(!canMountVolumes()).each(["a monitoring port", "writes of its own"])(
  "a NATS volume that is full is said of every job that waits or runs, though no record can be written (%s)",
  async (by) => {
    using volume = smallVolume(24);
    await using nats = await startNats({ storeDir: volume.path });
    await using nc = await nats.connect();
    await ensurePlatform(nc);
    const streams = await openStreams(nc);
    const monitors = by === "a monitoring port" ? [nats.monitor] : [];
    await using watch = new NatsWatch({ nats: nc, monitors, logger: silentLogger, lookMs: 100 });
    const end = new AbortController();
    const seen: string[] = [];
    const watching = (async () => {
      const records = async function* () {
        yield jobIn(JobPhase.RUNNING);
        await new Promise((resolve) => end.signal.addEventListener("abort", resolve));
      };
      for await (const { status } of watch.withChanges(records(), end.signal)) seen.push(status?.reason ?? "");
    })();

    volume.fill();
    const event = { job: "x".repeat(8192) };
    await expect(
      streams.publish(eventSubject("fl-1", "step"), JobEventSchema, event, { msgId: "a", timeoutMs: 500 }),
    ).rejects.toThrow();
    await waitFor(() => watch.refusal !== undefined);
    expect(watch.overlay(jobIn(JobPhase.RUNNING)).status).toMatchObject({
      reason: "NatsRefusesWrites",
      message: expect.stringMatching(/^NATS refuses writes: .+ Free space on its volume/) as string,
    });
    expect(watch.overlay(jobIn(JobPhase.SUCCEEDED)).status?.reason).toBe("Training");

    volume.free();
    await nats.restart();
    await waitFor(() => watch.refusal === undefined);
    expect(watch.overlay(jobIn(JobPhase.RUNNING)).status?.reason).toBe("Training");
    end.abort();
    await watching;
    // What a write of its own meets may change its words.
    expect(seen.filter((reason, i) => reason !== seen[i - 1])).toEqual(["Training", "NatsRefusesWrites", "Training"]);
  },
  40_000,
);
