// SPDX-License-Identifier: Apache-2.0
import { createServer, type Socket } from "node:net";
import type { AddressInfo } from "node:net";

// An engine that costs next to nothing, so that a bench sees the others: a reader of HTTP/1.1 that knows only what our
// clients send (a length, no chunks, one request at a time on a connection), and answers made once.

/** What was asked, unparsed. */
export interface LeanRequest {
  /** "POST /v1/chat/completions". */
  readonly route: string;
  readonly body: string;
}

/** JSON text, another status, or a fault: no answer ever, or a cut connection. */
export type LeanAnswer =
  string | { readonly status: number; readonly body: string } | { readonly fault: "hang" | "drop" };

export interface LeanEngineOptions {
  /** Before each answer of the model. Default 0. */
  readonly latencyMs?: number;
  /** Default 0: a free one. */
  readonly port?: number;
  /** Of the model's routes. Default: `answerBySeed`. */
  readonly answer?: (request: LeanRequest) => LeanAnswer;
}

export interface LeanEngine extends AsyncDisposable {
  readonly url: string;
  /** Requests of the model's routes so far. */
  readonly requests: number;
  /** Of these, not answered yet. */
  readonly waiting: number;
}

const LETTERS = ["U", "D", "L", "R"];
const CHAT = LETTERS.map((letter) => leanChat(letter));
const GENERATED = LETTERS.map((letter) => leanGenerate([letter.charCodeAt(0), 260]));

/** A chat completion of 21 and 2 tokens, which costs 200 bytes. */
export function leanChat(text: string): string {
  const choice = { index: 0, message: { role: "assistant", content: text }, finish_reason: "stop" };
  const usage = { prompt_tokens: 21, completion_tokens: 2, total_tokens: 23 };
  return JSON.stringify({ id: "chatcmpl-1", object: "chat.completion", choices: [choice], usage });
}

/** An IEP/1 answer, whose tokens carry the label "bench:1". */
export function leanGenerate(tokenIds: readonly number[]): string {
  const content = tokenIds.map((token_id) => ({ token_id, logprob: -0.5, rank: 1, top_logprobs: [] }));
  const weight_versions = [{ version: "bench:1", start: 0, end: tokenIds.length }];
  const choice = { index: 0, token_ids: tokenIds, logprobs: { content }, finish_reason: "stop", weight_versions };
  const usage = { prompt_tokens: 21, completion_tokens: tokenIds.length, total_tokens: 21 + tokenIds.length };
  return JSON.stringify({ request_id: "generate-tokens-x", usage, choices: [choice] });
}

/** One of four letters, by the request's seed. */
export function answerBySeed({ route, body }: LeanRequest): LeanAnswer {
  const at = body.lastIndexOf('"seed":');
  const letter = at < 0 ? 0 : Number.parseInt(body.slice(at + 7, at + 24), 10) % 4;
  return (route.endsWith("/generate") ? GENERATED : CHAT)[letter] as string;
}

export async function startLeanEngine(options: LeanEngineOptions = {}): Promise<LeanEngine> {
  const { latencyMs = 0, answer = answerBySeed } = options;
  const counts = { requests: 0, waiting: 0 };
  const sockets = new Set<Socket>();
  const server = createServer({ noDelay: true }, (socket) => {
    sockets.add(socket);
    socket.once("close", () => sockets.delete(socket)).on("error", () => undefined);
    readRequests(socket, (request) => {
      if (!request.route.startsWith("POST")) return void send(socket, fixedAnswer(request.route));
      counts.requests += 1;
      counts.waiting += 1;
      const respond = (): void => {
        const answered = answer(request);
        if (!isHang(answered)) counts.waiting -= 1;
        send(socket, answered);
      };
      if (latencyMs > 0) setTimeout(respond, latencyMs);
      else respond();
    });
  });
  await new Promise<void>((resolve) => server.listen(options.port ?? 0, "127.0.0.1", 4096, resolve));
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    get requests() {
      return counts.requests;
    },
    get waiting() {
      return counts.waiting;
    },
    [Symbol.asyncDispose]: async () => {
      for (const socket of sockets) socket.destroy();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}

function fixedAnswer(route: string): LeanAnswer {
  if (route === "GET /health") return "{}";
  if (route === "GET /v1/models") return JSON.stringify({ data: [{ id: "policy", max_model_len: 32_768 }] });
  return { status: 404, body: "{}" };
}

function isHang(answer: LeanAnswer): boolean {
  return typeof answer === "object" && "fault" in answer && answer.fault === "hang";
}

function send(socket: Socket, answer: LeanAnswer): void {
  if (isHang(answer) || socket.destroyed) return;
  if (typeof answer === "object" && "fault" in answer) {
    socket.destroy();
    return;
  }
  const { status, body } = typeof answer === "string" ? { status: 200, body: answer } : answer;
  const length = Buffer.byteLength(body);
  socket.write(`HTTP/1.1 ${status} S\r\ncontent-type: application/json\r\ncontent-length: ${length}\r\n\r\n${body}`);
}

function readRequests(socket: Socket, onRequest: (request: LeanRequest) => void): void {
  let text = "";
  socket.setEncoding("latin1");
  socket.on("data", (chunk: string) => {
    text = text === "" ? chunk : text + chunk;
    for (;;) {
      const headEnd = text.indexOf("\r\n\r\n");
      if (headEnd < 0) return;
      const end = headEnd + 4 + lengthIn(text, headEnd);
      if (text.length < end) return;
      const route = text.slice(0, text.indexOf(" ", text.indexOf(" ") + 1));
      const body = text.slice(headEnd + 4, end);
      text = text.slice(end);
      onRequest({ route, body });
    }
  });
}

function lengthIn(text: string, headEnd: number): number {
  const lower = text.indexOf("content-length: ");
  const at = lower < 0 ? text.indexOf("Content-Length: ") : lower;
  return at < 0 || at > headEnd ? 0 : Number.parseInt(text.slice(at + 16, at + 26), 10);
}
