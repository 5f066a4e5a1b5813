// SPDX-License-Identifier: Apache-2.0
import { once } from "node:events";
import type { ServerResponse } from "node:http";
import { StringDecoder } from "node:string_decoder";
import type { Dispatcher } from "undici";
import { errorOf, parsedJson, RefusedCall } from "../wire/http-parts.ts";
import { AnswerParts, type Part } from "./answer-parts.ts";
import type { Flight } from "./flights.ts";
import type { Asked } from "./generate-request.ts";
import { type Entry, errorText, type Meta, OutputSchema } from "./native.ts";
import type { SglangApi } from "./sglang-api.ts";

export interface Sampling {
  readonly api: SglangApi;
  readonly asked: Asked;
  /** That SGLang's weights have while it is asked. */
  readonly label: string;
  /** What the answer calls itself. */
  readonly id: string;
  readonly model: string;
  readonly flight: Flight;
  /** It was not ended before it could begin. */
  readonly isBegun: boolean;
  /** Ends when the caller leaves. */
  readonly gone: AbortSignal;
}

/** All of an answer. */
export interface Whole {
  readonly parts: AnswerParts;
  readonly all: Part;
  readonly promptScores: readonly (Record<string, { logprob: number }> | null)[] | undefined;
}

const ABORTED: Part = { ids: [], content: [], masks: [], finishReason: "abort", stopReason: null };

/** @throws RefusedCall where SGLang refuses it, or its answer cannot be trusted */
export async function sampleWhole(sampling: Sampling): Promise<Whole> {
  const { asked, label } = sampling;
  const parts = new AnswerParts(asked, label);
  const read: Part[] = [];
  let first: Meta | undefined;
  for await (const meta of metasOf(sampling)) {
    first ??= meta;
    read.push(parts.read(meta));
    if (read.at(-1)?.finishReason !== undefined) break;
  }
  const last = read.at(-1) ?? ABORTED;
  const all: Part = {
    ids: read.flatMap(({ ids }) => ids),
    content: read.flatMap(({ content }) => content),
    masks: read.flatMap(({ masks }) => masks),
    finishReason: last.finishReason ?? "abort",
    stopReason: last.stopReason,
  };
  const promptScores = asked.isScored ? scoresOf(asked, first?.input_token_logprobs ?? []) : undefined;
  return { parts, all, promptScores };
}

/**
 * Streams to the caller. An error before the first token is an answer of its own, a later one an event.
 * @returns why it ended: a reason, or the error that was told
 */
export async function sampleStream(sampling: Sampling, response: ServerResponse): Promise<string | RefusedCall> {
  const { asked, label, id } = sampling;
  const parts = new AnswerParts(asked, label);
  const headers = { "content-type": "text/event-stream", "x-weight-version": label };
  const write = async (event: object | string): Promise<void> => {
    if (!response.headersSent) response.writeHead(200, headers);
    const data = typeof event === "string" ? event : JSON.stringify(event);
    if (!response.write(`data: ${data}\n\n`)) await once(response, "drain", { signal: stopOf(sampling) });
  };
  let reason: string | undefined;
  let told: RefusedCall | undefined;
  try {
    for await (const meta of metasOf(sampling)) {
      const part = parts.read(meta);
      reason = part.finishReason;
      if (part.ids.length > 0 || reason !== undefined) await write(chunkOf(id, part, parts, asked));
      if (reason !== undefined) break;
    }
    if (reason === undefined) await write(chunkOf(id, ABORTED, parts, asked));
    if (asked.wantsUsage) await write({ request_id: id, choices: [], usage: parts.usage });
  } catch (error) {
    if (!(error instanceof RefusedCall) || !response.headersSent) throw error;
    told = error;
    await write(errorOf(told.refusal));
  }
  await write("[DONE]");
  response.end();
  return told ?? reason ?? "abort";
}

function chunkOf(id: string, part: Part, parts: AnswerParts, asked: Asked): object {
  const isLast = part.finishReason !== undefined;
  const spans = isLast || asked.wantsSpans ? { weight_versions: parts.spans } : {};
  return { request_id: id, choices: [{ ...choiceOf(part, asked), ...spans }] };
}

function choiceOf(part: Part, { logprobs, topK }: Asked): object {
  return {
    ...{ index: 0, token_ids: part.ids },
    logprobs: logprobs === undefined ? null : { content: part.content },
    finish_reason: part.finishReason ?? null,
    stop_reason: part.stopReason,
    ...(topK > 0 && { sampling_mask: part.masks }),
  };
}

/** The body of a whole answer. */
export function wholeBody({ parts, all, promptScores }: Whole, { asked, id, model }: Sampling): object {
  return {
    ...{ request_id: id, model, created: Math.floor(Date.now() / 1000) },
    choices: [{ ...choiceOf(all, asked), weight_versions: parts.spans }],
    usage: parts.usage,
    prompt_logprobs: promptScores ?? null,
  };
}

/** What SGLang says of a request, one after the other; nothing more once it was cut. Whoever stops reading ends it in SGLang. */
async function* metasOf(sampling: Sampling): AsyncGenerator<Meta, void, undefined> {
  const { api, asked, flight, isBegun } = sampling;
  if (!isBegun) return;
  let isOver = false;
  try {
    const { statusCode, body } = await api.generate({ rid: flight.rid, ...asked.native }, stopOf(sampling));
    if (statusCode !== 200) throw refusedBy(statusCode, await body.text());
    for await (const data of outputsOf(body)) {
      const meta = metaOf(data);
      isOver = meta.finish_reason !== undefined && meta.finish_reason !== null;
      yield meta;
    }
    isOver = true;
  } catch (error) {
    if (error instanceof RefusedCall || !flight.cut.aborted) throw error;
  } finally {
    // SGLang hears late, or not before it answers, that a connection was closed.
    if (!isOver) await api.post("/abort_request", { rid: flight.rid }).catch(() => undefined);
  }
}

/** A caller that left, or does not read, holds up nothing. */
function stopOf({ gone, flight }: Sampling): AbortSignal {
  return AbortSignal.any([gone, flight.cut]);
}

/** The events of a stream, or the one body. */
async function* outputsOf(body: Dispatcher.ResponseData["body"]): AsyncGenerator<string, void, undefined> {
  const decoder = new StringDecoder("utf8");
  let [rest, isStream] = ["", false];
  for await (const chunk of body as AsyncIterable<Buffer>) {
    rest += decoder.write(chunk);
    isStream ||= rest.startsWith("data:");
    if (!isStream) continue;
    const lines = rest.split("\n");
    rest = lines.pop() ?? "";
    for (const line of lines) if (line.startsWith("data:") && line !== "data: [DONE]") yield line.slice(5);
  }
  if (!isStream) yield rest;
}

function metaOf(data: string): Meta {
  const value = parsedJson(data);
  const { error } = (value ?? {}) as { error?: { code?: unknown } };
  if (error !== undefined) throw refusedBy(typeof error.code === "number" ? error.code : 500, data);
  const { data: output, error: wrong } = OutputSchema.safeParse(value);
  if (output !== undefined) return output.meta_info;
  throw new RefusedCall(500, "InternalServerError", `SGLang's answer is broken: ${wrong.issues[0]?.message}`);
}

function refusedBy(status: number, text: string): RefusedCall {
  return new RefusedCall(status, status < 500 ? "BadRequestError" : "InternalServerError", errorText(text));
}

/** As vLLM has them: null for the first token, then each by its id. */
function scoresOf({ ids }: Asked, entries: readonly Entry[]): (Record<string, { logprob: number }> | null)[] {
  if (entries.length !== ids.length)
    throw new RefusedCall(500, "InternalServerError", `SGLang scored ${entries.length} of ${ids.length} tokens`);
  return entries.map(([logprob, id]) => (logprob === null ? null : { [id]: { logprob } }));
}
