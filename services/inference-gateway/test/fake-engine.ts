// SPDX-License-Identifier: Apache-2.0
// An IEP/1 engine whose answers a test writes: labels, faults and interruptions on demand.
import { createServer } from "node:http";
import type { IncomingMessage, ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";

export interface FakeRequest {
  readonly request_id: string;
  /** An adapter's name. */
  readonly model?: string;
  readonly token_ids: number[];
  readonly stream: boolean;
  readonly features?: unknown;
  readonly stream_options?: { readonly continuous_weight_versions?: boolean };
  readonly sampling_params: {
    max_tokens: number;
    seed?: number;
    temperature: number;
    top_k: number;
    logprobs: number;
  };
}

/** Tokens that the engine will "sample" for a request, in order. */
export type Script = (request: FakeRequest) => number[];

/** What happens instead of a plain answer. */
export type Fault =
  | { kind: "status"; status: number; message?: string }
  | { kind: "die-after"; tokens: number }
  | { kind: "missing-logprob" }
  | { kind: "hang" };

interface Running {
  readonly response: ServerResponse;
  readonly request: FakeRequest;
  sent: number;
  readonly tokens: number[];
  readonly label: string;
}

const END = 260;

export class FakeEngine implements AsyncDisposable {
  label = "job:1";
  /** Sent as X-Weight-Version; null: no header, like a stock vLLM. */
  header: string | null = null;
  script: Script = (request) => [65 + (request.token_ids.length % 26), END];
  /** Tokens that end an answer. */
  readonly ends = new Set([END]);
  /** Used up one by one; then answers are plain again. */
  faults: Fault[] = [];
  /** Tokens a second stays open: with `true` answers stop after `holdAfter` tokens until `release` or `pause`. */
  hold = false;
  /** Spans come with each chunk of a stream that asks for them; a stock vLLM sends them with the last one only. */
  tellsVersions = false;
  holdAfter = 1;
  maxModelLen = 1024;
  /** Renders conversations with pictures, as vLLM does with a model that sees. */
  takesImages = false;
  /** What it was asked to render. */
  readonly rendered: { messages: { content: unknown }[] }[] = [];
  /** Ids beyond it are refused. */
  vocabularySize = Infinity;
  healthy = true;
  /** Requests said to wait; null: no metrics. */
  waiting: number | null = null;
  readonly requests: FakeRequest[] = [];
  /** Requests whose end was asked for. */
  readonly aborted: string[] = [];
  disconnects = 0;
  readonly #running = new Set<Running>();
  readonly #server = createServer((request, response) => void this.#serve(request, response));

  static async start(): Promise<FakeEngine> {
    const engine = new FakeEngine();
    await new Promise<void>((resolve) => engine.#server.listen(0, "127.0.0.1", resolve));
    return engine;
  }

  get url(): string {
    return `http://127.0.0.1:${String((this.#server.address() as AddressInfo).port)}`;
  }

  get running(): number {
    return this.#running.size;
  }

  /** Ends everything that runs as a pause with mode=abort does: partial tokens, finish_reason "abort". */
  abortAll(): void {
    for (const run of [...this.#running]) this.#finish(run, "abort");
  }

  /** Lets held answers go on to their end. */
  release(): void {
    this.hold = false;
    for (const run of [...this.#running]) this.#complete(run);
  }

  /** As kill -9: connections break, the port is closed. */
  kill(): Promise<void> {
    return new Promise((resolve) => {
      this.#server.close(() => {
        resolve();
      });
      this.#server.closeAllConnections();
    });
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.kill();
  }

  async #serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    let body = "";
    for await (const chunk of request) body += String(chunk);
    if (request.url === "/health") response.writeHead(this.healthy ? 200 : 503).end();
    else if (request.url === "/metrics" && this.waiting !== null)
      response.end(
        `vllm:num_requests_running{} ${this.running}\nvllm:num_requests_waiting{} ${this.waiting}\n` +
          "vllm:kv_cache_usage_perc{} 0.25\n",
      );
    else if (request.url === "/v1/models") response.end(JSON.stringify({ data: [{ ...this.#model }] }));
    else if (request.url === "/v1/chat/completions/render" && this.takesImages) this.#render(body, response);
    else if (request.url === "/inference/v1/abort_requests")
      this.#abort(JSON.parse(body) as { request_ids: string[] }, response);
    else if (request.url === "/inference/v1/generate") this.#generate(JSON.parse(body) as FakeRequest, response);
    else response.writeHead(404).end("{}");
  }

  get #model() {
    const modalities = this.takesImages ? { modalities: ["text", "image"] } : {};
    return { id: "policy", max_model_len: this.maxModelLen, ...modalities };
  }

  /** Ids that no template of ours makes, and one placeholder for each picture. */
  #render(body: string, response: ServerResponse): void {
    const request = JSON.parse(body) as { messages: { content: unknown }[] };
    this.rendered.push(request);
    const images = request.messages.flatMap(
      ({ content }) => (Array.isArray(content) ? content : []) as { type: string }[],
    );
    const hashes = images.filter(({ type }) => type === "image_url").map((_, i) => `picture ${i}`);
    const ids = [72, 105, ...hashes.map(() => 255)];
    response.end(JSON.stringify({ token_ids: ids, features: { mm_hashes: { image: hashes } }, sampling_params: {} }));
  }

  /** As a pause does, those that are named. */
  #abort({ request_ids: ids }: { request_ids: string[] }, response: ServerResponse): void {
    this.aborted.push(...ids);
    for (const run of [...this.#running])
      if (ids.includes(`generate-tokens-${run.request.request_id}`)) this.#finish(run, "abort");
    response.writeHead(200).end();
  }

  #generate(request: FakeRequest, response: ServerResponse): void {
    this.requests.push(request);
    const isKnown = request.token_ids.every((id) => id < this.vocabularySize);
    const fault: Fault | undefined = isKnown ? this.faults.shift() : { kind: "status", status: 400 };
    if (this.header !== null) response.setHeader("x-weight-version", this.header);
    if (fault?.kind === "status") {
      const error = { message: fault.message ?? "scripted", type: "t", param: null, code: fault.status };
      response.writeHead(fault.status).end(JSON.stringify({ error }));
      return;
    }
    const tokens = this.script(request).slice(0, request.sampling_params.max_tokens);
    const run: Running = { response, request, sent: 0, tokens, label: request.model ?? this.label };
    this.#running.add(run);
    response.on("close", () => {
      if (this.#running.delete(run)) this.disconnects++;
    });
    if (request.stream) response.writeHead(200, { "content-type": "text/event-stream" });
    if (fault !== undefined) this.#misbehave(run, fault);
    else if (this.hold) this.#send(run, this.holdAfter);
    else this.#complete(run);
  }

  #misbehave(run: Running, fault: Fault): void {
    if (fault.kind === "die-after") {
      this.#send(run, fault.tokens);
      setTimeout(() => run.response.destroy(), 5);
    } else if (fault.kind === "missing-logprob") {
      run.response.end(JSON.stringify(answer(run, run.tokens, "stop", { logprob: () => -9999 })));
      this.#running.delete(run);
    }
  }

  #complete(run: Running): void {
    this.#send(run, run.tokens.length - run.sent);
    this.#finish(run, this.ends.has(run.tokens.at(-1) ?? -1) ? "stop" : "length");
  }

  /** Samples some more tokens; a stream sends them one by one. */
  #send(run: Running, count: number): void {
    for (const token of run.tokens.slice(run.sent, run.sent + count)) {
      run.sent++;
      if (run.request.stream)
        event(run.response, { ...answer(run, [token], null, { spans: this.#toldSpans(run) }), usage: null });
    }
  }

  #toldSpans(run: Running): object[] | null {
    const isAsked = run.request.stream_options?.continuous_weight_versions === true;
    return this.tellsVersions && isAsked ? spansOf(run) : null;
  }

  #finish(run: Running, reason: string): void {
    this.#running.delete(run);
    const sampled = run.tokens.slice(0, run.sent);
    if (!run.request.stream) {
      run.response.end(JSON.stringify(answer(run, sampled, reason)));
      return;
    }
    event(run.response, { ...answer(run, [], reason), usage: null });
    run.response.end("data: [DONE]\n\n");
  }
}

/** The log-probability of a token is a function of the token, so that tests can check whose it is. */
export function fakeLogprob(token: number): number {
  return -token / 1024;
}

function spansOf(run: Running): object[] {
  return run.sent === 0 ? [] : [{ version: run.label, start: 0, end: run.sent }];
}

interface Told {
  readonly spans?: object[] | null;
  readonly logprob?: (token: number) => number;
}

function answer(run: Running, ids: number[], finish: string | null, told: Told = {}): object {
  const { spans = finish === null ? null : spansOf(run), logprob = fakeLogprob } = told;
  const content = ids.map((id) => {
    const entry = { token_id: id, logprob: logprob(id), rank: 1 };
    return { ...entry, top_logprobs: [entry, { token_id: id + 1, logprob: -9, rank: 2 }] };
  });
  const isTold = run.request.sampling_params.top_k > 0;
  const masked = { sampling_mask: isTold ? ids.map((id) => [id, id + 1]) : null };
  return {
    request_id: `generate-tokens-${run.request.request_id}`,
    choices: [
      { ...masked, index: 0, token_ids: ids, logprobs: { content }, finish_reason: finish, weight_versions: spans },
    ],
    usage: { prompt_tokens: run.request.token_ids.length, prompt_tokens_details: { cached_tokens: 3 } },
  };
}

function event(response: ServerResponse, value: unknown): void {
  response.write(`data: ${JSON.stringify(value)}\n\n`);
}
