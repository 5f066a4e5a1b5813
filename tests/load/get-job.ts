// SPDX-License-Identifier: Apache-2.0
// Asks GetJob every 50 ms until standard input closes; then prints how long the longest answer took, in milliseconds.
// `node tests/load/get-job.ts ADDRESS JOB`
import { setTimeout as delay } from "node:timers/promises";
import { JobService } from "@whetstone/proto/jobs/v1/jobs";
import { createClient } from "@whetstone/rpc";

const EVERY_MS = 50;
const DEADLINE_MS = 600_000;

const [address = "", name = ""] = process.argv.slice(2);
await using jobs = createClient(JobService, address);
let open = true;
process.stdin.resume().once("end", () => (open = false));
await jobs.getJob({ name }, { deadlineMs: DEADLINE_MS }); // Connects.
let longestMs = 0;
while (open) {
  const startedAt = performance.now();
  await jobs.getJob({ name }, { deadlineMs: DEADLINE_MS });
  longestMs = Math.max(longestMs, performance.now() - startedAt);
  await delay(EVERY_MS);
}
process.stdout.write(`${longestMs}\n`);
