// SPDX-License-Identifier: Apache-2.0
// The engine of bench-gateway.ts: answers at once and whoever asks, gateways by IEP/1 and others as an OpenAI server, always the
// same words. Prints its URL; ends with its stdin. `engine-process.ts TOKENS`: how many an answer has, its end of turn included.
import { leanChat, leanGenerate, startLeanEngine } from "@whetstone/testkit";

/** Of make_model.py's vocabulary: a letter, and the mark that ends a turn. */
const [LETTER, END_OF_TURN] = [42, 0];

const tokens = Number(process.argv[2]);
const generated = leanGenerate([...Array<number>(tokens - 1).fill(LETTER), END_OF_TURN]);
const chat = leanChat("I".repeat(tokens - 1));
const engine = await startLeanEngine({ answer: ({ route }) => (route.endsWith("/generate") ? generated : chat) });
process.stdout.write(`${engine.url}\n`);
process.stdin.resume().once("end", () => process.exit(0));
