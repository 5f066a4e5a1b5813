// SPDX-License-Identifier: Apache-2.0
// SGLang's native routes as its release 0.5.23 has them (http_server.py, io_struct.py, tokenizer_manager.py), written from
// their schemas. The tokens are those of the PyTorch engine. What is unlike vLLM is unlike it here, too: log-probabilities
// before top_k, ignore_eos that ignores stop tokens (sglang-sampler.ts), events with all tokens so far, a load that renames the
// model, requests that wait within while it is paused, gauges that are stale, and a client that leaves unheard.
import { randomUUID } from "node:crypto";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { setTimeout as delay } from "node:timers/promises";
import { type NativeRequest, type Sampled, SglangSampler } from "./sglang-sampler.ts";

export interface SglangOptions {
  readonly version?: string;
  /** Routes that this release does not have. */
  readonly without?: readonly string[];
  /** It has no weight_version. */
  readonly isUnlabelled?: boolean;
  /** SGLANG_RETURN_ORIGINAL_LOGPROB: log-probabilities before temperature. */
  readonly isOriginal?: boolean | undefined;
  /** --incremental-streaming-output: an event has its new tokens only. */
  readonly isIncremental?: boolean;
  readonly workers?: number;
}

export interface SglangServer extends AsyncDisposable {
  readonly url: string;
  /** Bodies of /generate and of control calls, such as "POST /pause_generation", in order. */
  readonly calls: { readonly route: string; readonly body: Fields }[];
  label: string;
}

type Fields = Record<string, unknown>;
interface Running {
  isAborted: boolean;
}

const MAX_LENGTH = 1024;

class Server {
  readonly calls: SglangServer["calls"] = [];
  label = "default";
  readonly #engine: string;
  readonly #options: SglangOptions;
  readonly #running = new Map<string, Running>();
  #model: string;
  #isPaused = false;

  constructor(engine: string, model: string, options: SglangOptions) {
    this.#engine = engine;
    this.#model = model;
    this.#options = options;
  }

  async handle(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const chunks: Buffer[] = [];
    for await (const chunk of request) chunks.push(chunk as Buffer);
    const text = Buffer.concat(chunks).toString();
    const path = (request.url ?? "/").split("?", 1)[0] ?? "/";
    const body = (text === "" ? {} : JSON.parse(text)) as Fields;
    const route = this.#options.without?.includes(path) === true ? undefined : this.#routes[path];
    if (request.method === "POST") this.calls.push({ route: `POST ${path}`, body });
    if (route === undefined) return send(response, 404, { detail: "Not Found" });
    if (request.method !== route.method && path !== "/flush_cache") return send(response, 405, { detail: "Method" });
    await route.answer(body, response);
  }

  readonly #routes: Record<string, { method: string; answer: (body: Fields, response: ServerResponse) => unknown }> = {
    "/model_info": { method: "GET", answer: (_body, response) => send(response, 200, this.#info()) },
    "/server_info": {
      method: "GET",
      answer: (_body, response) => {
        const { version = "0.5.23", workers = 1 } = this.#options;
        const sizes = { tp_size: 2, pp_size: 1, dp_size: 1, tokenizer_worker_num: workers };
        send(response, 200, { version, ...sizes, api_key: "secret", internal_states: [] });
      },
    },
    "/v1/models": {
      method: "GET",
      answer: (_body, response) =>
        send(response, 200, { data: [{ id: this.#model, root: this.#model, max_model_len: MAX_LENGTH }] }),
    },
    "/ping": { method: "GET", answer: (_body, response) => send(response, 200, {}) },
    "/health": { method: "GET", answer: (_body, response) => send(response, this.#isPaused ? 503 : 200, {}) },
    "/metrics": { method: "GET", answer: async (_body, response) => response.end(await this.#metrics()) },
    "/generate": { method: "POST", answer: (body, response) => this.#generate(body, response) },
    "/abort_request": {
      method: "POST",
      answer: async ({ rid, abort_all }, response) => {
        await this.#abort(abort_all === true ? undefined : String(rid));
        send(response, 200, {});
      },
    },
    "/pause_generation": {
      method: "POST",
      answer: async ({ mode = "abort" }, response) => {
        if (mode !== "abort") return send(response, 400, { error: { message: "only abort is written here" } });
        this.#isPaused = true;
        await this.#abort(undefined);
        while (this.#running.size > 0) await delay(20);
        send(response, 200, { message: "Generation paused successfully.", status: "ok" });
      },
    },
    "/continue_generation": {
      method: "POST",
      answer: (_body, response) => {
        this.#isPaused = false;
        send(response, 200, { message: "Generation continued successfully.", status: "ok" });
      },
    },
    "/update_weights_from_disk": { method: "POST", answer: (body, response) => this.#load(body, response) },
    "/update_weight_version": {
      method: "POST",
      answer: async ({ new_version, abort_all_requests: aborts = true }, response) => {
        if (aborts === true) await this.#abort(undefined);
        this.label = String(new_version);
        send(response, 200, { success: true, new_version });
      },
    },
    "/flush_cache": {
      method: "POST",
      answer: async (_body, response) => {
        if (this.#running.size > 0) return send(response, 400, { error: { message: "Flush cache failed." } });
        await this.#ask("/reset_prefix_cache", {});
        send(response, 200, {});
      },
    },
    "/tokenize": {
      method: "POST",
      answer: async (body, response) => {
        const { status, value } = await this.#ask("/tokenize", body);
        send(response, status, { ...value, max_model_len: -1 });
      },
    },
    "/detokenize": {
      method: "POST",
      answer: async ({ tokens }, response) => {
        const { status, value } = await this.#ask("/detokenize", { tokens });
        send(response, status, { text: value["prompt"] });
      },
    },
  };

  #info(): Fields {
    const label = this.#options.isUnlabelled === true ? {} : { weight_version: this.label };
    return { model_path: this.#model, served_model_name: this.#model, is_generation: true, ...label };
  }

  async #load({ model_path: path, weight_version: label }: Fields, response: ServerResponse): Promise<void> {
    await this.#ask("/pause?mode=abort&clear_cache=true", {});
    const call = { method: "reload_weights", kwargs: { weights_path: path } };
    const { status } = await this.#ask("/collective_rpc", call);
    // It rolls back to what it had.
    if (status !== 200) await this.#ask("/collective_rpc", { ...call, kwargs: { weights_path: this.#model } });
    await this.#ask("/resume", {});
    if (status !== 200) return send(response, 400, { success: false, message: "Failed to update weights" });
    this.#model = String(path);
    if (typeof label === "string") this.label = label;
    send(response, 200, { success: true, message: "Succeeded to update model weights.", num_paused_requests: 0 });
  }

  async #abort(rid: string | undefined): Promise<void> {
    const rids = [...this.#running.keys()].filter((one) => rid === undefined || one === rid);
    for (const one of rids) (this.#running.get(one) as Running).isAborted = true;
    if (rids.length > 0)
      await this.#ask("/abort_requests", { request_ids: rids.map((one) => `generate-tokens-${one}`) });
  }

  async #generate(body: Fields, response: ServerResponse): Promise<void> {
    const ids = body["input_ids"] as number[];
    while (this.#isPaused) await delay(10);
    const { rid = randomUUID() } = body as { rid?: string };
    if (this.#running.has(rid)) return send(response, 400, { error: { message: "Duplicate request ID detected" } });
    if (ids.some((id) => id >= 1000)) return send(response, 400, { error: { message: "greater than the vocab size" } });
    const running = { isAborted: false };
    this.#running.set(rid, running);
    try {
      await this.#answer({ ...body, rid }, running, response);
    } finally {
      this.#running.delete(rid);
    }
  }

  async #answer(body: Fields, running: Running, response: ServerResponse): Promise<void> {
    const { isUnlabelled, isOriginal, isIncremental } = this.#options;
    const isStream = body["stream"] === true;
    const request = body as unknown as NativeRequest;
    let shown = 0;
    const outputOf = ({ all, cached, scores }: Sampled, finish: object | null): object => {
      const fresh = all.slice(isIncremental === true && isStream ? shown : 0);
      shown = all.length;
      const meta_info = {
        ...{ id: request.rid, finish_reason: finish, prompt_tokens: request.input_ids.length },
        ...{ completion_tokens: all.length, cached_tokens: cached },
        ...(isUnlabelled !== true && { weight_version: this.label }),
        output_token_logprobs: fresh.map(({ own }) => own),
        ...((request.top_logprobs_num ?? 0) > 0 && { output_top_logprobs: fresh.map(({ top }) => top) }),
        ...(scores && { input_token_logprobs: scores }),
      };
      return { text: "", output_ids: fresh.map(({ own }) => own[1]), meta_info };
    };
    const sampler = new SglangSampler(this.#engine, request, { isOriginal, isAborted: () => running.isAborted });
    const finish = await sampler.run((sampled) => {
      if (isStream) response.write(`data: ${JSON.stringify(outputOf(sampled, null))}\n\n`);
    });
    const last = outputOf(sampler.sampled, finish);
    if (!isStream) return send(response, 200, last);
    response.end(`data: ${JSON.stringify(last)}\n\ndata: [DONE]\n\n`);
  }

  async #ask(path: string, body: object): Promise<{ status: number; value: Fields }> {
    const response = await fetch(this.#engine + path, { method: "POST", body: JSON.stringify(body) });
    const text = await response.text();
    return { status: response.status, value: (text.startsWith("{") ? JSON.parse(text) : {}) as Fields };
  }

  async #metrics(): Promise<string> {
    const text = await (await fetch(`${this.#engine}/metrics`)).text();
    const value = (name: string): string => new RegExp(`^vllm:${name}\\S* (\\S+)`, "m").exec(text)?.[1] ?? "0";
    const lines = {
      num_running_reqs: "3",
      num_queue_reqs: "0",
      token_usage: value("kv_cache_usage_perc"),
      prompt_tokens_total: value("prompt_tokens_total"),
      generation_tokens_total: value("generation_tokens_total"),
      cached_tokens_total: value("prefix_cache_hits_total"),
      num_retracted_requests_total: "0",
    };
    return Object.entries(lines)
      .map(([name, found]) => `sglang:${name}{model_name="m"} ${found}\n`)
      .join("");
  }
}

/** @param engine  the PyTorch engine's address @param model  the folder that it serves */
export async function startSglangServer(
  engine: string,
  model: string,
  options: SglangOptions = {},
): Promise<SglangServer> {
  const sglang = new Server(engine, model, options);
  const server = createServer((request, response) => {
    sglang.handle(request, response).catch(() => response.destroy());
  });
  await new Promise<void>((listening) => server.listen(0, "127.0.0.1", listening));
  const { port } = server.address() as AddressInfo;
  const close = (): Promise<void> =>
    new Promise((closed) => {
      server.close(() => closed());
      server.closeAllConnections();
    });
  return Object.assign(sglang, { url: `http://127.0.0.1:${port}`, [Symbol.asyncDispose]: close });
}

function send(response: ServerResponse, status: number, body: object): void {
  response.writeHead(status, { "content-type": "application/json" }).end(JSON.stringify(body));
}
