// SPDX-License-Identifier: Apache-2.0
import { randomUUID } from "node:crypto";
import type { IncomingMessage, ServerResponse } from "node:http";
import { setTimeout as delay } from "node:timers/promises";
import type { EngineAnswer, EngineSampling, EngineScript, Fault } from "./engine-script.ts";
import { type EngineState, finishReason, type Generation, type VersionSpan } from "./engine-state.ts";

// POST /inference/v1/generate, in the wire format of vLLM 0.32, streamed and whole.

export interface GenerateDeps {
  readonly state: EngineState;
  readonly script: EngineScript;
  readonly model: string;
  readonly vocabularySize: number;
  readonly maxModelLength: number;
  readonly firstTokenMs: number;
  readonly tokenMs: number;
}

export interface GenerateRequest {
  readonly requestId: string;
  readonly tokenIds: readonly number[];
  readonly sampling: EngineSampling;
  readonly stream: boolean;
  readonly body: Readonly<Record<string, unknown>>;
}

export class BadRequest extends Error {
  readonly status: number;
  readonly param: string | undefined;

  constructor(status: number, message: string, param?: string) {
    super(message);
    this.status = status;
    this.param = param;
  }
}

export function parseGenerate(deps: GenerateDeps, request: IncomingMessage, body: unknown): GenerateRequest {
  const fields = (body ?? {}) as Record<string, unknown>;
  const { token_ids: tokenIds, sampling_params: sampling, model, stream } = fields;
  if (typeof model === "string" && model !== deps.model) {
    throw new BadRequest(404, `The model \`${model}\` does not exist.`, "model");
  }
  checkTokens(deps, tokenIds);
  const maxTokens = (sampling as EngineSampling | undefined)?.max_tokens;
  if (typeof maxTokens !== "number" || maxTokens < 1)
    throw new BadRequest(400, "max_tokens required", "body.sampling_params");
  const header = request.headers["x-request-id"];
  const given = typeof header === "string" ? header : fields["request_id"];
  return {
    requestId: `generate-tokens-${typeof given === "string" ? given : randomUUID()}`,
    tokenIds,
    sampling: {
      ...(sampling as EngineSampling),
      max_tokens: Math.min(maxTokens, deps.maxModelLength - tokenIds.length),
    },
    stream: stream === true,
    body: fields,
  };
}

function checkTokens(deps: GenerateDeps, tokenIds: unknown): asserts tokenIds is number[] {
  const isToken = (id: unknown): boolean => Number.isInteger(id) && Number(id) >= 0;
  if (!Array.isArray(tokenIds) || tokenIds.length === 0 || !tokenIds.every(isToken)) {
    throw new BadRequest(400, "token_ids must be non-negative integers, at least one", "body.token_ids");
  }
  if (tokenIds.some((id) => id >= deps.vocabularySize)) throw new BadRequest(400, "Token id is out of vocabulary");
  if (tokenIds.length >= deps.maxModelLength) throw new BadRequest(400, "the prompt is longer than the context");
}

export async function generate(
  deps: GenerateDeps,
  request: GenerateRequest,
  response: ServerResponse,
  fault: Fault | undefined,
): Promise<void> {
  const { state } = deps;
  const generation = state.begin(request.requestId);
  let gone = false;
  response.on("close", () => {
    gone = true;
    state.abort([generation]);
  });
  try {
    await whilePaused(state, generation);
    generation.started = true;
    const answer = await deps.script(request.tokenIds, request.sampling);
    const limit = fault?.kind === "drop" ? (fault.afterTokens ?? 0) : answer.tokenIds.length;
    const play = { deps, request, response, answer, generation, limit };
    await emitTokens(play);
    if (gone) return;
    if (fault?.kind === "drop") response.destroy();
    else finish(play, claimedSpans(generation.spans, fault));
  } finally {
    state.end(generation);
  }
}

interface Play {
  readonly deps: GenerateDeps;
  readonly request: GenerateRequest;
  readonly response: ServerResponse;
  readonly answer: EngineAnswer;
  readonly generation: Generation;
  readonly limit: number;
}

async function emitTokens({ deps, request, response, answer, generation, limit }: Play): Promise<void> {
  const { state } = deps;
  if (request.stream) response.writeHead(200, { "content-type": "text/event-stream", "x-weight-version": state.label });
  for (let i = 0; i < Math.min(limit, answer.tokenIds.length); i += 1) {
    const waitMs = i === 0 ? deps.firstTokenMs : deps.tokenMs;
    if (waitMs > 0) await delay(waitMs);
    await whilePaused(state, generation); // E1
    if (generation.aborted) return;
    state.emit(generation);
    if (request.stream) writeChunk(response, { ...envelope(request), choices: [choice(answer, i, i + 1)] });
  }
}

/** An aborted one waits no longer. */
async function whilePaused(state: EngineState, generation: Generation): Promise<void> {
  while (state.paused && !generation.aborted) await state.changed();
}

function claimedSpans(spans: readonly VersionSpan[], fault: Fault | undefined): readonly VersionSpan[] {
  if (fault?.kind === "no-label") return [];
  if (fault?.kind === "wrong-label") return spans.map((span) => ({ ...span, version: fault.label }));
  return spans;
}

function finish({ deps, request, response, answer, generation }: Play, spans: readonly VersionSpan[]): void {
  const reason = generation.aborted ? "abort" : finishReason(answer, request.sampling.max_tokens);
  const count = generation.emitted;
  const usage = {
    prompt_tokens: request.tokenIds.length,
    completion_tokens: count,
    total_tokens: request.tokenIds.length + count,
    prompt_tokens_details: { cached_tokens: 0 },
  };
  const last = { finish_reason: reason, stop_reason: null, weight_versions: spans };
  if (!request.stream) {
    const body = { ...envelope(request), model: deps.model, created: 0, usage };
    sendJson(response, 200, { ...body, choices: [{ ...choice(answer, 0, count), ...last }] }, deps.state.label);
    return;
  }
  writeChunk(response, { ...envelope(request), usage: null, choices: [{ ...choice(answer, count, count), ...last }] });
  const { include_usage } = (request.body["stream_options"] ?? {}) as { include_usage?: boolean };
  if (include_usage === true) writeChunk(response, { ...envelope(request), usage, choices: [] });
  response.end("data: [DONE]\n\n");
}

function envelope(request: GenerateRequest): object {
  return { request_id: request.requestId, output_mode: "tokens" };
}

function choice(answer: EngineAnswer, start: number, end: number): object {
  const ids = answer.tokenIds.slice(start, end);
  const content = ids.map((token_id, i) => {
    const logprob = answer.logprobs[start + i] ?? -9999;
    return { token_id, logprob, rank: 1, top_logprobs: [{ token_id, logprob, rank: 1 }] };
  });
  return { index: 0, token_ids: ids, logprobs: { content }, finish_reason: null, weight_versions: null };
}

function writeChunk(response: ServerResponse, chunk: object): void {
  response.write(`data: ${JSON.stringify(chunk)}\n\n`);
}

export function sendJson(response: ServerResponse, status: number, body: object, label?: string): void {
  if (response.destroyed || response.headersSent) return;
  const version = label === undefined ? {} : { "x-weight-version": label };
  response.writeHead(status, { "content-type": "application/json", ...version }).end(JSON.stringify(body));
}
