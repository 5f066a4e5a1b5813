// SPDX-License-Identifier: Apache-2.0
import { jetstream, type JetStreamClient, jetstreamManager } from "@nats-io/jetstream";
import { TimeoutError } from "@nats-io/nats-core";
import { RolloutTaskSchema } from "@whetstone/proto/events/v1/events";
import { startNats } from "@whetstone/testkit";
import { expect, it } from "vitest";
import type { ClaimStore } from "./claims/claim-store.ts";
import { ensureJobStreams, ensurePlatform, type Nats, taskStream, taskSubject } from "./index.ts";
import { createPublish, type PublishOptions } from "./publish.ts";

/** The real client, whose first acknowledgement gets lost: the server has stored the message all the same. */
function losingFirstAck(js: JetStreamClient): JetStreamClient {
  let lost = false;
  const publish: JetStreamClient["publish"] = async (...args) => {
    const ack = await js.publish(...args);
    if (lost) return ack;
    lost = true;
    throw new TimeoutError();
  };
  return { publish } as JetStreamClient;
}

async function publishOnce(nc: Nats, job: string, options: PublishOptions): Promise<string> {
  await ensureJobStreams(nc, job);
  const manager = await jetstreamManager(nc);
  const publish = createPublish({ js: losingFirstAck(jetstream(nc)), manager, claims: {} as ClaimStore });
  const done = publish(taskSubject(job), RolloutTaskSchema, { job }, { ...options, timeoutMs: 3_000 });
  const outcome = await done.then(
    ({ duplicate }) => (duplicate ? "stored before" : "stored"),
    () => "refused",
  );
  const { messages } = (await manager.streams.info(taskStream(job))).state;
  return `${outcome}, ${messages} in the stream`;
}

it("sends a message again after a lost acknowledgement only if the server can tell it is the same (P3)", async () => {
  await using nats = await startNats();
  await using nc = await nats.connect();
  await ensurePlatform(nc);
  expect(await publishOnce(nc, "with-id", { msgId: "a" })).toBe("stored before, 1 in the stream");
  expect(await publishOnce(nc, "by-subject", { firstOnSubject: true })).toBe("stored before, 1 in the stream");
  expect(await publishOnce(nc, "without", {})).toBe("refused, 1 in the stream");
});
