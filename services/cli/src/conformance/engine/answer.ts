// SPDX-License-Identifier: Apache-2.0
/** An engine's answer to a generate request, whole or joined from a stream, and when two of them are the same. */
import { shown } from "./engine-api.ts";

/** Half-open over the answer's tokens. */
export interface Span {
  readonly version: string;
  readonly start: number;
  readonly end: number;
}

export interface Answer {
  readonly requestId: string;
  readonly ids: readonly number[];
  /** Of the sampled tokens, in nats; empty where the engine sent none. */
  readonly logprobs: readonly number[];
  /** Ids that the entries of `logprobs` name; undefined where an entry names none. */
  readonly named: readonly (number | undefined)[];
  /** For each token the log-probabilities of the likeliest ones, the sampled one among them, by id. */
  readonly alternatives: readonly ReadonlyMap<number, number>[];
  readonly finishReason: string | undefined;
  readonly stopReason: unknown;
  /** Undefined: the engine names no spans. */
  readonly spans: readonly Span[] | undefined;
  readonly usage: Usage | undefined;
}

export interface Usage {
  readonly prompt_tokens?: number;
  readonly completion_tokens?: number;
  readonly prompt_tokens_details?: { readonly cached_tokens?: number } | null;
}

interface WireEntry {
  readonly token_id?: number;
  readonly token?: string;
  readonly logprob?: number;
  readonly top_logprobs?: readonly WireEntry[];
}

interface WireChoice {
  readonly token_ids?: readonly number[] | null;
  readonly logprobs?: { readonly content?: readonly WireEntry[] | null } | null;
  readonly finish_reason?: string | null;
  readonly stop_reason?: unknown;
  readonly weight_versions?: readonly Span[] | null;
}

interface WireAnswer {
  readonly request_id?: string;
  readonly choices?: readonly WireChoice[];
  readonly usage?: Usage | null;
  readonly error?: unknown;
}

/** Whether two lists of numbers are the same; none is the same as none. */
export function same(first: readonly number[] | undefined, second: readonly number[] | undefined): boolean {
  return first?.length === second?.length && (first ?? []).every((value, i) => value === second?.[i]);
}

/** @throws Error that says what the answer lacks */
export function readAnswer(body: unknown): Answer {
  return joinAnswers([body]);
}

/** @param chunks  as they came; the spans and the reason are those of the last chunk that has them */
export function joinAnswers(chunks: readonly unknown[]): Answer {
  const read = chunks.map(readChunk);
  const choices = read.flatMap(({ choices = [] }) => choices);
  const entries = choices.flatMap(({ logprobs }) => logprobs?.content ?? []);
  const last = <T>(of: (choice: WireChoice) => T | null | undefined): T | undefined =>
    choices.map(of).findLast((value) => value !== null && value !== undefined) ?? undefined;
  return {
    requestId: read.find(({ request_id }) => request_id !== undefined)?.request_id ?? "",
    ids: choices.flatMap(({ token_ids }) => token_ids ?? []),
    logprobs: entries.map(({ logprob }) => logprob ?? NaN),
    named: entries.map(idOf),
    alternatives: entries.map(
      ({ top_logprobs = [] }) => new Map(top_logprobs.map((one) => [idOf(one) ?? -1, one.logprob ?? NaN])),
    ),
    finishReason: last(({ finish_reason }) => finish_reason),
    stopReason: last(({ stop_reason }) => stop_reason),
    spans: last(({ weight_versions }) => weight_versions),
    usage: read.findLast(({ usage }) => usage !== null && usage !== undefined)?.usage ?? undefined,
  };
}

function readChunk(body: unknown): WireAnswer {
  const answer = (body ?? {}) as WireAnswer;
  if (answer.error !== undefined) throw new Error(`it answered with an error: ${shown(answer.error)}`);
  if (!Array.isArray(answer.choices)) throw new Error(`an answer has no choices: ${shown(body)}`);
  const choices = answer.choices as readonly WireChoice[];
  const wrong = choices.find(({ token_ids: ids }) => ids !== null && !Array.isArray(ids));
  if (wrong !== undefined) throw new Error(`a choice has no token_ids: ${shown(wrong)}`);
  return answer;
}

/** vLLM before 0.28 writes "token_id:123" in place of the number. */
function idOf({ token_id, token }: WireEntry): number | undefined {
  if (token_id !== undefined) return token_id;
  const digits = /^token_id:(\d+)$/.exec(token ?? "")?.[1];
  return digits === undefined ? undefined : Number(digits);
}

/** Reads are the protocol's: the tokens of the prompt that a cache had. Undefined: the engine does not say. */
export function cachedTokens({ usage }: Answer): number | undefined {
  return usage?.prompt_tokens_details?.cached_tokens;
}

/**
 * Where two greedy answers to one prompt differ; undefined: nowhere. Two tokens that are as likely as each other within the
 * tolerance may come in either order: what follows such a place is not compared.
 */
export function difference(first: Answer, second: Answer, tolerance: number): string | undefined {
  const length = Math.max(first.ids.length, second.ids.length);
  for (let i = 0; i < length; i += 1) {
    const [a, b] = [first.ids[i], second.ids[i]];
    if (a !== b)
      return isTie(first, b, i, tolerance) ? undefined : `token ${i} is ${b ?? "missing"}, not ${a ?? "the end"}`;
    const [one, other] = [first.logprobs[i], second.logprobs[i]];
    if (one === undefined || other === undefined) return `token ${i} has no log-probability`;
    if (!(Math.abs(one - other) <= tolerance)) return `the log-probability of token ${i} is ${other}, not ${one}`;
  }
  return undefined;
}

function isTie({ alternatives, logprobs }: Answer, id: number | undefined, i: number, tolerance: number): boolean {
  const [best, other] = [logprobs[i], id === undefined ? undefined : alternatives[i]?.get(id)];
  return best !== undefined && other !== undefined && best - other <= tolerance;
}
