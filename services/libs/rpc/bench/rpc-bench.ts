// SPDX-License-Identifier: Apache-2.0
// Prints one JSON line: round trips per second of unary calls and of long bidirectional streams, server and client in one process.
// Run: node services/libs/rpc/bench/rpc-bench.ts
import { EnvironmentService } from "@whetstone/proto/environments/v1/environments";
import { JobService } from "@whetstone/proto/jobs/v1/jobs";
import { silentLogger } from "@whetstone/telemetry";
import { createClient, implement, startServer } from "../src/index.ts";

const SECONDS = 3;
const text = "x".repeat(200);

async function unary(address: string, concurrency: number): Promise<number> {
  await using client = createClient(JobService, address);
  await client.getJob({ name: "warm" });
  const endsAt = performance.now() + SECONDS * 1000;
  let calls = 0;
  const loop = async (): Promise<void> => {
    for (; performance.now() < endsAt; calls += 1) await client.getJob({ name: "a" });
  };
  await Promise.all(Array.from({ length: concurrency }, loop));
  return Math.round(calls / SECONDS);
}

/** Each stream sends its next message when the answer to the last is there. */
async function pingPong(address: string, streams: number): Promise<number> {
  await using client = createClient(EnvironmentService, address);
  const endsAt = performance.now() + SECONDS * 1000;
  let roundTrips = 0;
  const play = async (): Promise<void> => {
    let turn = Promise.withResolvers<boolean>();
    const requests = (async function* () {
      yield { kind: { case: "step" as const, value: {} } };
      while (await turn.promise) {
        turn = Promise.withResolvers();
        yield { kind: { case: "step" as const, value: {} } };
      }
    })();
    for await (const _ of client.session(requests)) {
      roundTrips += 1;
      turn.resolve(performance.now() < endsAt);
    }
  };
  await Promise.all(Array.from({ length: streams }, play));
  return Math.round(roundTrips / SECONDS);
}

await using server = await startServer({
  host: "127.0.0.1",
  port: 0,
  logger: silentLogger,
  services: [
    implement(JobService, { getJob: ({ name }) => ({ job: { uid: name } }) }),
    implement(EnvironmentService, {
      async *session(requests) {
        for await (const _ of requests) yield { kind: { case: "observation", value: { text } } };
      },
    }),
  ],
});
const unaryPerSecond = await unary(server.address, 64);
const oneStream = await pingPong(server.address, 1);
const manyStreams = await pingPong(server.address, 64);
console.log(
  JSON.stringify({
    bench: "rpc",
    node: process.version,
    unaryCallsPerSecond: unaryPerSecond,
    roundTripsPerSecondOneStream: oneStream,
    roundTripsPerSecond64Streams: manyStreams,
    messagesPerSecond64Streams: manyStreams * 2,
  }),
);
