// SPDX-License-Identifier: Apache-2.0
import { create } from "@bufbuild/protobuf";
import type { Nats, TypedStreams } from "@whetstone/messaging";
import { RolloutTaskSchema } from "@whetstone/proto/events/v1/events";
import { countTurns } from "@whetstone/testkit";
import { expect, it } from "vitest";
import { NatsTaskQueue } from "./nats-task-queue.ts";

it("leaves others their turns while it publishes, however fast the server answers", async () => {
  const count = 6_400;
  const published = new Set<string>();
  const publish = (subject: string) => Promise.resolve(void published.add(subject));
  async function* tasks() {
    for (let i = 0; i < count; i++) yield await Promise.resolve(create(RolloutTaskSchema, { group: `g${i}` }));
  }
  const queue = new NatsTaskQueue({} as Nats, { publish } as unknown as TypedStreams, "j");
  expect(await countTurns(() => queue.publish(tasks(), new AbortController().signal))).toBeGreaterThan(count / 128);
  expect(published.size).toBe(count);
});
