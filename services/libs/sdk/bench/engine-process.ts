// SPDX-License-Identifier: Apache-2.0
// The bench's engine, in a process of its own: answers after `argv[2]` milliseconds, never for the model "parked". Prints
// its URL; ends with its stdin.
import { answerBySeed, startLeanEngine } from "@whetstone/testkit";

const engine = await startLeanEngine({
  latencyMs: Number(process.argv[2] ?? 0),
  answer: (request) => (request.body.startsWith('{"model":"parked"') ? { fault: "hang" } : answerBySeed(request)),
});
process.stdout.write(`${engine.url}\n`);
process.stdin.resume().once("end", () => process.exit(0));
