// SPDX-License-Identifier: Apache-2.0
// An engine that answers at once: two tokens, whatever is asked. Prints its URL. `bench-engine.ts [longest context]`
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";

const logprobs = [65, 260].map((token_id) => ({ token_id, logprob: -0.5, rank: 1, top_logprobs: [] }));
const choice = { index: 0, token_ids: [65, 260], logprobs: { content: logprobs }, finish_reason: "stop" };
const weights = [{ version: "job:1", start: 0, end: 2 }];
const usage = {
  prompt_tokens: 21,
  total_tokens: 23,
  completion_tokens: 2,
  prompt_tokens_details: { cached_tokens: 0 },
};
const answer = { request_id: "generate-tokens-x", usage, choices: [{ ...choice, weight_versions: weights }] };
const bodies = new Map([
  ["/inference/v1/generate", JSON.stringify(answer)],
  ["/v1/models", JSON.stringify({ data: [{ id: "policy", max_model_len: Number(process.argv[2] ?? 1024) }] })],
  ["/health", ""],
]);

const server = createServer((request, response) => {
  request.resume().once("end", () => {
    const body = bodies.get(request.url ?? "");
    response.writeHead(body === undefined ? 404 : 200, { "content-type": "application/json" }).end(body);
  });
});
server.listen(0, "127.0.0.1", () => {
  process.stdout.write(`http://127.0.0.1:${String((server.address() as AddressInfo).port)}\n`);
});
process.stdin.resume().once("end", () => process.exit(0));
