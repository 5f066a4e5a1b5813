// SPDX-License-Identifier: Apache-2.0
// A gateway that costs as little as possible, in its own process, so that the bench sees the orchestrator's cost alone.
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import { createServer as createTlsServer } from "node:https";
import type { AddressInfo } from "node:net";
import { create, toBinary } from "@bufbuild/protobuf";
import { CallTreeSchema } from "@whetstone/proto/inference/v1/inference";
import { type ModelCall, ModelCallSchema } from "@whetstone/proto/types/v1/types";
import { silentLogger as logger } from "@whetstone/telemetry";
import { openTls } from "@whetstone/tls";

const LETTERS = ["U", "D", "L", "R"];
const PROMPT_TOKENS = 21;
const COMPLETION_TOKENS = 2;
const counts = new Map<string, number>();

const answer = (request: IncomingMessage, response: ServerResponse): void => {
  const chunks: Buffer[] = [];
  request.on("data", (chunk: Buffer) => chunks.push(chunk));
  request.on("end", () => {
    const [, , session = "", route = ""] = (request.url ?? "").split("/");
    if (route === "v1") chat(session, Buffer.concat(chunks).toString(), response);
    else tree(session, response);
  });
};
const tls = openTls(process.env["WHETSTONE_TLS_PATH"], { logger });
const server = tls
  ? createTlsServer({ ...tls.material, requestCert: true, rejectUnauthorized: true }, answer)
  : createServer(answer);

function chat(session: string, body: string, response: ServerResponse): void {
  const index = counts.get(session) ?? 0;
  counts.set(session, index + 1);
  const seed = Number(/"seed":(\d+)/.exec(body)?.[1] ?? 0);
  const text = JSON.stringify({
    id: `chatcmpl-${index}`,
    object: "chat.completion",
    created: 1_700_000_000,
    model: "bench",
    choices: [
      {
        index: 0,
        message: { role: "assistant", content: LETTERS[seed % 4], refusal: null },
        logprobs: null,
        finish_reason: "stop",
      },
    ],
    usage: { prompt_tokens: PROMPT_TOKENS, completion_tokens: COMPLETION_TOKENS, total_tokens: 23 },
    call_id: `c${index}`,
  });
  response.writeHead(200, { "content-type": "application/json", "content-length": Buffer.byteLength(text) }).end(text);
}

function tree(session: string, response: ServerResponse): void {
  const calls = Array.from({ length: counts.get(session) ?? 0 }, (_, i) => call(`c${i}`));
  counts.delete(session);
  const body = toBinary(CallTreeSchema, create(CallTreeSchema, { session, calls }));
  response.writeHead(200, { "content-type": "application/x-protobuf", "content-length": body.length }).end(body);
}

function call(id: string): ModelCall {
  return create(ModelCallSchema, {
    id,
    promptIds: Array.from({ length: PROMPT_TOKENS }, (_, i) => i),
    completionIds: [7, 8],
    logprobs: [-0.5, -0.25],
    versionSpans: [{ start: 0, end: COMPLETION_TOKENS, policyVersion: 1n }],
    finishReason: "stop",
    sampling: { temperature: 1 },
    role: "agent",
    text: "R",
  });
}

server.keepAliveTimeout = 60_000;
server.listen(0, "127.0.0.1", () => {
  process.stdout.write(`${tls ? "https" : "http"}://127.0.0.1:${(server.address() as AddressInfo).port}\n`);
});
