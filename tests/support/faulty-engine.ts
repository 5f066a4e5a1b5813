// SPDX-License-Identifier: Apache-2.0
// An engine with one fault: a proxy before a real one, which changes calls and answers on their way.
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";

export interface Choice {
  token_ids: number[];
  prompt_token_ids?: number[];
  finish_reason: string | null;
  logprobs: { content?: { logprob: number }[] } | null;
  weight_versions?: { version: string; start: number; end: number }[] | null;
}

/** As much of calls, answers and events as faults touch. */
export interface Wire {
  model?: string;
  token_ids?: number[];
  cache_salt?: string;
  sampling_params?: Record<string, unknown>;
  request_ids?: string[];
  choices?: Choice[];
  usage?: { prompt_tokens: number; prompt_tokens_details?: { cached_tokens: number } } | null;
  [field: string]: unknown;
}

export interface Call {
  /** "POST /pause". */
  route: string;
  /** With its "?", or empty. */
  query: string;
  /** Undefined: there is none, or it is no JSON. */
  body: Wire | undefined;
  /** As it came. */
  text: string;
}

export interface Answer {
  status: number;
  body: Wire | string;
  label?: string | null;
}

export interface Fault {
  /** Changes a call; what it answers goes back in the engine's stead. @param engine  the engine itself */
  readonly before?: (call: Call, engine: RealCalls) => Answer | undefined | Promise<Answer | undefined>;
  /** Changes a whole answer. */
  readonly after?: (call: Call, answer: Answer) => void;
  /** Changes an event of a stream; false: it is left out. */
  readonly event?: (call: Call, event: Wire) => boolean | void;
  /** The engine does not hear that a client leaves. */
  readonly isDeaf?: boolean;
}

/** An engine with all of them; of those that answer a call themselves the first does. */
export function severalFaults(faults: readonly Fault[]): Fault {
  return {
    before: async (call, engine) => {
      for (const { before } of faults) {
        const answer = await before?.(call, engine);
        if (answer !== undefined) return answer;
      }
      return undefined;
    },
    after: (call, answer) => faults.forEach(({ after }) => after?.(call, answer)),
    event: (call, event) => faults.every((fault) => fault.event?.(call, event) !== false),
    isDeaf: faults.some(({ isDeaf }) => isDeaf === true),
  };
}

export interface RealCalls {
  post(path: string, body?: object): Promise<Answer>;
  isPaused(): Promise<boolean>;
}

export interface FaultyEngine extends AsyncDisposable {
  readonly url: string;
  /** Every call, such as "POST /pause?mode=abort", in order. */
  readonly calls: readonly string[];
}

/** @param engine  URL of the real one */
export async function startFaultyEngine(engine: string, fault: Fault): Promise<FaultyEngine> {
  const calls: string[] = [];
  const server = createServer((request, response) => {
    pass({ engine, fault, calls, request, response }).catch(() => response.destroy());
  });
  await new Promise<void>((listening) => server.listen(0, "127.0.0.1", listening));
  const close = (): Promise<void> =>
    new Promise((closed) => {
      server.close(() => closed());
      server.closeAllConnections();
    });
  const { port } = server.address() as AddressInfo;
  return { url: `http://127.0.0.1:${port}`, calls, [Symbol.asyncDispose]: close };
}

interface Exchange {
  readonly engine: string;
  readonly fault: Fault;
  readonly calls: string[];
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
}

async function pass({ engine, fault, calls, request, response }: Exchange): Promise<void> {
  const call = await readCall(request);
  calls.push(call.route + call.query);
  const left = new AbortController();
  if (fault.isDeaf !== true) response.on("close", () => left.abort());
  const own = await fault.before?.(call, realCalls(engine));
  if (own !== undefined) return send(response, own);
  const answer = await forward(engine, call, left.signal);
  if (answer.headers.get("content-type")?.startsWith("text/event-stream")) return stream(call, fault, answer, response);
  const whole = await readAnswer(answer);
  fault.after?.(call, whole);
  send(response, whole);
}

async function readCall(request: IncomingMessage): Promise<Call> {
  const chunks: Buffer[] = [];
  for await (const chunk of request) chunks.push(chunk as Buffer);
  const text = Buffer.concat(chunks).toString();
  const { pathname, search } = new URL(request.url ?? "/", "http://engine");
  return { route: `${request.method} ${pathname}`, query: search, body: parsed(text), text };
}

function forward(engine: string, { route, query, body, text }: Call, signal: AbortSignal): Promise<Response> {
  const [method = "", path = ""] = route.split(" ");
  const sent = body === undefined ? text : JSON.stringify(body);
  const headers = { "content-type": "application/json" };
  return fetch(engine + path + query, { method, headers, signal, ...(sent === "" ? {} : { body: sent }) });
}

function realCalls(engine: string): RealCalls {
  const headers = { "content-type": "application/json" };
  return {
    post: async (path, body = {}) =>
      await readAnswer(await fetch(engine + path, { method: "POST", headers, body: JSON.stringify(body) })),
    isPaused: async () => {
      const { body } = await readAnswer(await fetch(`${engine}/is_paused`));
      return typeof body !== "string" && body["is_paused"] === true;
    },
  };
}

async function readAnswer(response: Response): Promise<Answer> {
  const text = await response.text();
  return { status: response.status, body: parsed(text) ?? text, label: response.headers.get("x-weight-version") };
}

function send(response: ServerResponse, { status, body, label }: Answer): void {
  if (response.destroyed) return;
  const isText = typeof body === "string";
  const version = label === undefined || label === null ? {} : { "x-weight-version": label };
  response.writeHead(status, { "content-type": isText ? "text/plain" : "application/json", ...version });
  response.end(isText ? body : JSON.stringify(body));
}

async function stream(call: Call, fault: Fault, answer: Response, response: ServerResponse): Promise<void> {
  response.writeHead(answer.status, { "content-type": "text/event-stream" });
  let rest = "";
  for await (const chunk of (answer.body as ReadableStream<Uint8Array>).pipeThrough(new TextDecoderStream())) {
    const events = (rest + chunk).split("\n\n");
    rest = events.pop() ?? "";
    for (const event of events) {
      const body = parsed(event.slice("data: ".length));
      if (body === undefined) response.write(`${event}\n\n`);
      else if (fault.event?.(call, body) !== false) response.write(`data: ${JSON.stringify(body)}\n\n`);
    }
  }
  response.end(rest);
}

function parsed(text: string): Wire | undefined {
  try {
    return JSON.parse(text) as Wire;
  } catch {
    return undefined;
  }
}
