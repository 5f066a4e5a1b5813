// SPDX-License-Identifier: Apache-2.0
import { randomUUID } from "node:crypto";
import type { ServerResponse } from "node:http";
import type { Logger } from "@whetstone/telemetry";
import { z } from "zod";
import type { Call, EngineBehind, Told } from "../wire/engine-behind.ts";
import { leaving, parsedJson, RefusedCall, sendJson, textOf } from "../wire/http-parts.ts";
import { weightLoadOf } from "../wire/weight-load.ts";
import { LabelChanged } from "./answer-parts.ts";
import { completionOf, generateBodyOf } from "./completions.ts";
import { SglangControl } from "./control.ts";
import { Flights } from "./flights.ts";
import { type Sampling, sampleStream, sampleWhole, type Whole, wholeBody } from "./generate.ts";
import { type Asked, badRequest, readRequest } from "./generate-request.ts";
import { inspect, type SglangFacts } from "./inspect.ts";
import { vllmMetrics } from "./metrics.ts";
import type { SglangApi } from "./sglang-api.ts";
import { detokenize, tokenize } from "./tokens.ts";

/** Of a prompt's ids. */
const MAX_BODY = 64 << 20;
/** A release that cannot be used is looked at again after a while: somebody may have started another one. */
const LOOK_AGAIN_MS = 5_000;
/** What vLLM puts before the name of a request, by which the gateway aborts it. */
const VLLM_PREFIX = "generate-tokens-";

const LabelSchema = z.object({ new_version: z.string().min(1) });
const AbortSchema = z.object({ request_ids: z.array(z.string()).nullish() });

interface Ready {
  readonly facts: SglangFacts;
  readonly control: SglangControl;
}

type Route = (call: Call, ready: Ready) => Promise<object>;

/** SGLang, which answers IEP/1 through its own routes. */
export class SglangEngine implements EngineBehind {
  readonly #api: SglangApi;
  readonly #logger: Logger;
  readonly #flights = new Flights();
  /** Answers by their reasons. */
  readonly #ended = new Map<string, number>();
  #ready: Promise<Ready> | undefined;

  constructor(api: SglangApi, logger: Logger) {
    this.#api = api;
    this.#logger = logger;
  }

  async isPaused(): Promise<boolean> {
    return (await this.#opened()).control.isPaused;
  }

  async modelFolder(): Promise<string> {
    return (await this.#opened()).facts.folder;
  }

  async tell(url: string): Promise<Told> {
    const { model, folder: root, maxModelLen: max_model_len } = (await this.#opened()).facts;
    if (url === "/metrics") return await this.#tellMetrics(model);
    const card = { id: model, object: "model", root, max_model_len, modalities: ["text"], names_support: ["top_k"] };
    return { status: 200, type: "application/json", text: JSON.stringify({ object: "list", data: [card] }) };
  }

  async answer(call: Call): Promise<number> {
    const { method = "GET", url = "/" } = call.request;
    const name = `${method} ${new URL(url, "http://engine").pathname}`;
    const ready = await this.#opened();
    if (name === "POST /inference/v1/generate") {
      const asked = readRequest(await bodyOf(call), ready.facts);
      return await this.#sample({ call, asked, send: wholeBody }, ready);
    }
    if (name === "POST /v1/completions") {
      const asked = readRequest(generateBodyOf(await bodyOf(call)), ready.facts);
      return await this.#sample({ call, asked, send: completionOf }, ready);
    }
    const route = this.#routes[name];
    if (route === undefined) throw new RefusedCall(404, "NotFoundError", `SGLang has nothing for ${name}`);
    return sendJson(call.response, 200, await route(call, ready));
  }

  readonly #routes: Readonly<Record<string, Route>> = {
    "POST /tokenize": async (call, { facts }) => await tokenize(this.#api, await bodyOf(call), facts.maxModelLen),
    "POST /detokenize": async (call) => await detokenize(this.#api, await bodyOf(call)),
    "GET /health": async (_call, { control }) => await this.#health(control),
    "GET /version": async (_call, { facts }) => ({ version: `sglang ${facts.version}` }),
    "GET /server_info": async (_call, { facts }) => ({
      engine: "sglang",
      version: facts.version,
      logprobs_mode: "processed_logprobs",
    }),
    "GET /get_world_size": async (_call, { facts }) => ({ world_size: facts.worldSize }),
    "POST /pause": async ({ request }, { control }) => {
      const { searchParams: query } = new URL(request.url ?? "/", "http://engine");
      await control.pause(query.get("mode") ?? "abort", query.get("clear_cache") !== "false");
      return { status: "paused" };
    },
    "POST /resume": async (_call, { control }) => {
      await control.resume();
      return { status: "resumed" };
    },
    "GET /is_paused": async (_call, { control }) => ({ is_paused: control.isPaused }),
    "POST /abort_requests": async (call) => await this.#abort(await bodyOf(call)),
    "POST /inference/v1/abort_requests": async (call) => await this.#abort(await bodyOf(call)),
    "POST /reset_prefix_cache": async (_call, { control }) => {
      await control.clearCache();
      return { success: true };
    },
    "GET /weight_info": async (_call, { control }) => ({ weight_version: await control.currentLabel() }),
    "POST /update_weight_version": async (call, { control }) => {
      const { data, error } = LabelSchema.safeParse(parsedJson(await bodyOf(call)));
      if (error) throw badRequest(error);
      await control.setLabel(data.new_version);
      return { success: true, new_version: data.new_version };
    },
    "POST /collective_rpc": async (call, { control }) => {
      await control.load(weightLoadOf(await bodyOf(call))?.path ?? "");
      return { results: [null] };
    },
  };

  async #sample({ call, asked, send }: SampleCall, { facts, control }: Ready): Promise<number> {
    const { response } = call;
    const gone = leaving(response);
    const id = asked.id ?? randomUUID();
    using flight = this.#flights.enter(id);
    const isBegun = await flight.mayBegin(gone);
    const { label } = control;
    const sampling = { api: this.#api, asked, label, id, model: facts.model, flight, isBegun, gone };
    try {
      const ended = asked.isStream ? await sampleStream(sampling, response) : await sendWhole(response, sampling, send);
      if (typeof ended === "string") this.#ended.set(ended, (this.#ended.get(ended) ?? 0) + 1);
      else await this.#learn(ended, control);
      return response.statusCode;
    } catch (error) {
      await this.#learn(error, control);
      throw error;
    }
  }

  /** Somebody else named its weights, or started it anew: the next request begins under the label that it has now. */
  async #learn(error: unknown, control: SglangControl): Promise<void> {
    if (!(error instanceof LabelChanged)) return;
    this.#logger.warn("label_changed", { reason: error.message });
    await control.currentLabel();
  }

  async #abort(text: string): Promise<object> {
    const { data, error } = AbortSchema.safeParse(text === "" ? {} : parsedJson(text));
    if (error) throw badRequest(error);
    const asked = data.request_ids ?? [];
    const ids = asked.length > 0 ? asked : this.#flights.ids;
    const named = ids.flatMap((id) => [id, ...(id.startsWith(VLLM_PREFIX) ? [id.slice(VLLM_PREFIX.length)] : [])]);
    const rids = named.flatMap((id) => this.#flights.abort(id));
    await Promise.all(rids.map((rid) => this.#api.mustPost("/abort_request", { rid })));
    return { status: "aborted", aborted: rids.length };
  }

  /** SGLang's own check samples a token, for which it waits as long as it is paused. */
  async #health({ isPaused }: SglangControl): Promise<object> {
    const { status } = await this.#api.get(isPaused ? "/ping" : "/health");
    if (status === 200) return {};
    throw new RefusedCall(503, "ServiceUnavailable", `SGLang says that it is not well: ${status}`);
  }

  async #tellMetrics(model: string): Promise<Told> {
    const { status, text } = await this.#api.get("/metrics");
    const { running, held } = this.#flights;
    const mapped = status === 200 ? vllmMetrics(text, { model, running, held, ended: this.#ended }) : text;
    return { status, type: "text/plain; version=0.0.4; charset=utf-8", text: mapped };
  }

  #opened(): Promise<Ready> {
    this.#ready ??= this.#open();
    return this.#ready;
  }

  async #open(): Promise<Ready> {
    try {
      const facts = await inspect(this.#api);
      this.#logger.info("sglang_inspected", { ...facts });
      return { facts, control: new SglangControl(this.#api, this.#flights, facts.label) };
    } catch (error) {
      const isRefused = error instanceof RefusedCall;
      if (isRefused) this.#logger.error("sglang_refused", { reason: error.message });
      setTimeout(() => (this.#ready = undefined), isRefused ? LOOK_AGAIN_MS : 0).unref();
      throw error;
    }
  }
}

type Body = (whole: Whole, sampling: Sampling) => object;

interface SampleCall {
  readonly call: Call;
  readonly asked: Asked;
  /** What is sent of a whole answer. */
  readonly send: Body;
}

/** @returns why it ended */
async function sendWhole(response: ServerResponse, sampling: Sampling, send: Body): Promise<string> {
  const whole = await sampleWhole(sampling);
  sendJson(response, 200, send(whole, sampling), { "x-weight-version": sampling.label });
  return whole.all.finishReason ?? "abort";
}

async function bodyOf({ body }: Call): Promise<string> {
  return typeof body === "string" ? body : await textOf(body, MAX_BODY);
}
