// SPDX-License-Identifier: Apache-2.0
// Stands in for orchestrators under load: takes tasks from a job's queue and seals an episode without a body for each.
// `node tests/load/batch-answers.ts NATS_URL JOB`; ends when standard input closes.
import { create, fromBinary, toBinary } from "@bufbuild/protobuf";
import { AckPolicy, jetstream, jetstreamManager } from "@nats-io/jetstream";
import { headers } from "@nats-io/nats-core";
import { connectNats, episodeSubject, taskStream } from "@whetstone/messaging";
import { RolloutTaskSchema } from "@whetstone/proto/events/v1/events";
import { EpisodeSummarySchema, FailureClass } from "@whetstone/proto/types/v1/types";
import { silentLogger } from "@whetstone/telemetry";

const DIGEST = "0123456789abcdef".repeat(4);

const [servers = "", job = ""] = process.argv.slice(2);
await using nats = await connectNats({ servers, name: "batch-answers", logger: silentLogger });
const [js, manager] = [jetstream(nats), await jetstreamManager(nats)];
await manager.consumers.add(taskStream(job), {
  durable_name: "answers",
  ack_policy: AckPolicy.Explicit,
  max_ack_pending: 4096,
});
const consumer = await js.consumers.get(taskStream(job), "answers");
process.stdin.resume().once("end", () => process.exit(0));
for await (const message of await consumer.consume({ max_messages: 1000 })) {
  const { episodeId, group, sample, purpose, task } = fromBinary(RolloutTaskSchema, message.data);
  const summary = {
    ...{ episodeId, purpose, attempt: 1, failureClass: FailureClass.NONE, isCorrect: true, reward: 1, digest: DIGEST },
    ...{ minPolicyVersion: 0n, maxPolicyVersion: 0n, sampledTokens: 10, promptTokens: 100, steps: 4 },
    ...{ taskId: task?.id ?? "", timing: { total: { seconds: 1n }, model: { nanos: 500_000_000 } } },
  };
  const sealed = headers();
  const bytes = toBinary(EpisodeSummarySchema, create(EpisodeSummarySchema, summary));
  sealed.set("Whetstone-Summary", Buffer.from(bytes).toString("base64"));
  nats.publish(episodeSubject(job, group, sample), new Uint8Array(), { headers: sealed });
  message.ack();
}
