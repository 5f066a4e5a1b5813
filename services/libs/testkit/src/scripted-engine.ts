// SPDX-License-Identifier: Apache-2.0
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import {
  BadRequest,
  generate,
  type GenerateDeps,
  type GenerateRequest,
  parseGenerate,
  sendJson,
} from "./engine-generate.ts";
import { echoScript, type EngineScript, type Fault, FaultPlan, type FaultPoint } from "./engine-script.ts";
import { EngineState } from "./engine-state.ts";

// An engine without a model: the IEP/1 subset of vLLM's protocol, whose words come from a function. Control routes behave as
// vLLM 0.32 does, including a second pause that aborts what was queued meanwhile.

export interface ScriptedEngineOptions {
  /** Default: `echoScript`. */
  readonly script?: EngineScript;
  /** Default: `policy`. */
  readonly model?: string;
  /** Label of the weights at the start; default `default`, as vLLM's. */
  readonly label?: string;
  /** Default 32,768. */
  readonly maxModelLength?: number;
  /** Default 200,000. */
  readonly vocabularySize?: number;
  /** Before the first token and before each further one; default 0. */
  readonly firstTokenMs?: number;
  readonly tokenMs?: number;
  /** Default 0: a free one. */
  readonly port?: number;
  /** It can read weights before its pause, as ours; default false, as vLLM. */
  readonly stages?: boolean;
}

export interface ScriptedEngine extends AsyncDisposable {
  readonly url: string;
  readonly port: number;
  readonly state: Pick<EngineState, "label" | "paused" | "weightsPath" | "tokensGenerated">;
  /** Generate requests in progress, waiting ones included. */
  readonly running: number;
  /** Every generate request that was accepted, in order. */
  readonly requests: readonly GenerateRequest[];
  /** Every control call, such as `pause mode=abort`, in order. */
  readonly controlCalls: readonly string[];
  /** Strikes the next `times` calls (default 1) at that point. */
  inject(point: FaultPoint, fault: Fault, times?: number): void;
  clearFaults(): void;
  /** As a restart would: forgets the label and the weights, cuts every connection. */
  crash(): void;
}

interface Engine {
  readonly stages: boolean;
  readonly deps: GenerateDeps;
  readonly state: EngineState;
  readonly faults: FaultPlan;
  readonly requests: GenerateRequest[];
  readonly controlCalls: string[];
}

interface Exchange {
  readonly engine: Engine;
  readonly url: URL;
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
  readonly body: () => Promise<unknown>;
}

export async function startScriptedEngine(options: ScriptedEngineOptions = {}): Promise<ScriptedEngine> {
  const engine = createEngine(options);
  const server = createServer((request, response) => {
    const url = new URL(request.url ?? "/", "http://engine");
    const exchange = { engine, url, request, response, body: () => readJson(request) };
    dispatch(exchange).catch((error: unknown) => {
      sendError(response, error);
    });
  });
  server.keepAliveTimeout = 5_000; // vLLM's.
  await new Promise<void>((resolve) => server.listen(options.port ?? 0, "127.0.0.1", resolve));
  const { port } = server.address() as AddressInfo;
  return {
    port,
    url: `http://127.0.0.1:${port}`,
    state: engine.state,
    requests: engine.requests,
    controlCalls: engine.controlCalls,
    get running() {
      return engine.state.running.size;
    },
    inject: (point, fault, times = 1) => {
      engine.faults.add(point, fault, times);
    },
    clearFaults: () => {
      engine.faults.clear();
    },
    crash: () => {
      crash(engine, server);
    },
    [Symbol.asyncDispose]: () => close(server),
  };
}

function createEngine(options: ScriptedEngineOptions): Engine {
  const state = new EngineState(options.label ?? "default");
  const deps: GenerateDeps = {
    state,
    script: options.script ?? echoScript,
    model: options.model ?? "policy",
    vocabularySize: options.vocabularySize ?? 200_000,
    maxModelLength: options.maxModelLength ?? 32_768,
    firstTokenMs: options.firstTokenMs ?? 0,
    tokenMs: options.tokenMs ?? 0,
  };
  return { stages: options.stages ?? false, deps, state, faults: new FaultPlan(), requests: [], controlCalls: [] };
}

function crash({ state }: Engine, server: Server): void {
  state.abort(state.running.values());
  Object.assign(state, { label: "default", weightsPath: undefined, paused: false });
  server.closeAllConnections();
}

function close(server: Server): Promise<void> {
  return new Promise((resolve) => {
    server.close(() => {
      resolve();
    });
    server.closeAllConnections();
  });
}

type Route = (exchange: Exchange) => Promise<void> | void;

const ROUTES: Readonly<Record<string, Route>> = {
  "POST /inference/v1/generate": handleGenerate,
  "POST /inference/v1/abort_requests": handleAbort,
  "POST /abort_requests": handleAbort,
  "POST /pause": handlePause,
  "POST /resume": handleResume,
  "POST /collective_rpc": handleCollectiveRpc,
  "POST /stage_weights": handleStage,
  "POST /update_weight_version": handleLabel,
  "GET /is_paused": ({ engine, response }) => {
    sendJson(response, 200, { is_paused: engine.state.paused });
  },
  "GET /weight_info": ({ engine, response }) => {
    sendJson(response, 200, { weight_version: engine.state.label });
  },
  "GET /health": async (exchange) => {
    if (!(await strike(exchange, "health"))) exchange.response.writeHead(200).end();
  },
  "GET /version": ({ response }) => {
    sendJson(response, 200, { version: "0.32.0+scripted" });
  },
  "GET /v1/models": ({ engine, response }) => {
    const { model, maxModelLength } = engine.deps;
    const root = engine.state.weightsPath ?? model;
    sendJson(response, 200, {
      object: "list",
      data: [{ id: model, object: "model", max_model_len: maxModelLength, root }],
    });
  },
  "POST /reset_prefix_cache": ({ response }) => {
    sendJson(response, 200, { success: true });
  },
  "GET /get_world_size": ({ response }) => {
    sendJson(response, 200, { world_size: 1 });
  },
  "GET /metrics": ({ engine, response }) => {
    response.writeHead(200, { "content-type": "text/plain; version=0.0.4" }).end(metricsText(engine.state));
  },
};

async function dispatch(exchange: Exchange): Promise<void> {
  const route = ROUTES[`${exchange.request.method} ${exchange.url.pathname}`];
  if (route === undefined) sendJson(exchange.response, 404, { detail: "Not Found" });
  else await route(exchange);
}

async function handleGenerate(exchange: Exchange): Promise<void> {
  const { engine, request, response } = exchange;
  const parsed = parseGenerate(engine.deps, request, await exchange.body());
  engine.requests.push(parsed);
  const fault = engine.faults.take("generate");
  if (fault?.kind === "hang") await hang(response);
  else if (fault?.kind === "status") throw new BadRequest(fault.status, "scripted failure");
  else await generate(engine.deps, parsed, response, fault);
}

async function handleAbort(exchange: Exchange): Promise<void> {
  if (await strike(exchange, "abort")) return;
  const { state } = exchange.engine;
  const { request_ids: ids } = ((await exchange.body()) ?? {}) as { request_ids?: string[] };
  const targets = ids === undefined ? [...state.running.values()] : ids.flatMap((id) => state.running.get(id) ?? []);
  state.abort(targets);
  sendJson(exchange.response, 200, { status: "aborted", aborted: ids?.length ?? targets.length });
}

async function handlePause(exchange: Exchange): Promise<void> {
  const { engine, url, response } = exchange;
  const { state } = engine;
  const mode = url.searchParams.get("mode") ?? "abort";
  engine.controlCalls.push(`pause mode=${mode}`);
  if (await strike(exchange, "pause")) return;
  if (!["abort", "wait", "keep"].includes(mode)) throw new BadRequest(400, `bad mode ${mode}`, "query.mode");
  if (mode === "wait") while (state.running.size > 0) await state.changed();
  state.paused = true;
  state.change();
  if (mode === "abort") {
    state.abort(state.running.values());
    while ([...state.running.values()].some(({ aborted }) => aborted)) await state.changed();
  }
  sendJson(response, 200, { status: "paused" });
}

async function handleResume(exchange: Exchange): Promise<void> {
  exchange.engine.controlCalls.push("resume");
  if (await strike(exchange, "resume")) return;
  exchange.engine.state.paused = false;
  exchange.engine.state.change();
  sendJson(exchange.response, 200, { status: "resumed" });
}

async function handleCollectiveRpc(exchange: Exchange): Promise<void> {
  const { method, kwargs } = ((await exchange.body()) ?? {}) as { method?: string; kwargs?: { weights_path?: string } };
  exchange.engine.controlCalls.push(`collective_rpc ${method} ${kwargs?.weights_path ?? ""}`.trim());
  if (method === undefined) throw new BadRequest(400, "Missing 'method' in request body");
  if (method !== "reload_weights") throw new BadRequest(400, `unknown method ${method}`);
  if (await strike(exchange, "reload")) return;
  exchange.engine.state.weightsPath = kwargs?.weights_path;
  sendJson(exchange.response, 200, { results: [null] });
}

const SCRIPTED = "scripted failure";

interface StageBody {
  readonly weights_path?: string;
  readonly stream?: { readonly url: string; readonly manifest_digest: string };
}

async function handleStage(exchange: Exchange): Promise<void> {
  const { weights_path: path, stream } = ((await exchange.body()) ?? {}) as StageBody;
  if (!exchange.engine.stages) return sendJson(exchange.response, 404, { detail: "Not Found" });
  exchange.engine.controlCalls.push(`stage ${path}${stream ? ` ${stream.url} ${stream.manifest_digest}` : ""}`);
  if (!(await strike(exchange, "stage"))) sendJson(exchange.response, 200, { success: true });
}

async function handleLabel(exchange: Exchange): Promise<void> {
  const { new_version: version } = ((await exchange.body()) ?? {}) as { new_version?: string };
  exchange.engine.controlCalls.push(`label ${version}`);
  if (version === undefined) throw new BadRequest(400, "new_version required", "body.new_version");
  if (await strike(exchange, "label")) return;
  exchange.engine.state.label = version;
  sendJson(exchange.response, 200, { success: true, new_version: version });
}

/** True when a fault has taken the exchange over. */
async function strike({ engine, response }: Exchange, point: FaultPoint): Promise<boolean> {
  const fault = engine.faults.take(point);
  if (fault === undefined) return false;
  if (fault.kind === "hang") await hang(response);
  else if (fault.kind === "drop") response.destroy();
  else if (fault.kind === "status") throw new BadRequest(fault.status, fault.words ?? SCRIPTED);
  else throw new BadRequest(500, SCRIPTED);
  return true;
}

function hang(response: ServerResponse): Promise<void> {
  return new Promise((resolve) => {
    response.on("close", resolve);
  });
}

async function readJson(request: IncomingMessage): Promise<unknown> {
  const chunks: Buffer[] = [];
  for await (const chunk of request) chunks.push(chunk as Buffer);
  const text = Buffer.concat(chunks).toString();
  if (text === "") return undefined;
  try {
    return JSON.parse(text);
  } catch {
    throw new BadRequest(400, "the body is not JSON", "body");
  }
}

function sendError(response: ServerResponse, error: unknown): void {
  const known = error instanceof BadRequest ? error : new BadRequest(500, String(error));
  const type = { 400: "BadRequestError", 404: "NotFoundError" }[known.status] ?? "InternalServerError";
  sendJson(response, known.status, {
    error: { message: known.message, type, param: known.param ?? null, code: known.status },
  });
}

function metricsText(state: EngineState): string {
  const started = [...state.running.values()].filter((generation) => generation.started).length;
  return [
    ["vllm:num_requests_running", started],
    ["vllm:num_requests_waiting", state.running.size - started],
    ["vllm:kv_cache_usage_perc", 0],
    ["vllm:prefix_cache_queries_total", 0],
    ["vllm:prefix_cache_hits_total", 0],
    ["vllm:generation_tokens_total", state.tokensGenerated],
    ["vllm:prompt_tokens_total", 0],
    ["vllm:num_preemptions_total", 0],
  ]
    .map(([name, value]) => `${name}{model_name="policy"} ${value}\n`)
    .join("");
}
