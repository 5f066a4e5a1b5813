// SPDX-License-Identifier: Apache-2.0
// The words of IEP/1: the subset of vLLM's /inference/v1/generate that an engine and the gateway exchange.
import type { Alternative, AttemptRequest, Tokens } from "../completion/generate.ts";
import { wireLogits } from "../completion/logit-changes.ts";
import type { Intake } from "../fleet/engine-entry.ts";
import type { LabelSpan } from "../completion/token-span.ts";

interface WireLogprob {
  readonly logprob?: number;
  readonly top_logprobs?: { readonly token_id?: number; readonly logprob?: number }[];
}

interface WireChoice {
  readonly token_ids?: number[] | null;
  readonly logprobs?: { readonly content?: WireLogprob[] | null } | null;
  readonly finish_reason?: string | null;
  /** The ids that truncated sampling kept for each token. vLLM has it with --return-sampling-mask, but not in streams. */
  readonly sampling_mask?: number[][] | null;
  readonly weight_versions?: LabelSpan[] | null;
}

/** A whole answer, or one chunk of a stream. */
export interface WireAnswer {
  readonly choices?: WireChoice[];
  readonly usage?: { readonly prompt_tokens_details?: { readonly cached_tokens?: number } | null } | null;
  readonly error?: { readonly message?: string; readonly code?: number | string };
}

/** What vLLM writes for a log-probability that is missing, NaN or -inf. Never a real value. */
const MISSING_LOGPROB = -9999;

/** Spans with each chunk keep the labels of what was sent when a stream breaks (I5). vLLM does not know that option. */
const STREAM_OPTIONS = { include_usage: true, continuous_weight_versions: true };

/**
 * The body of a generate request. `logprobs: 0` asks for the sampled tokens' own log-probabilities.
 * @param model  the name of an adapter; undefined: the engine's own weights
 */
export function generateBody(request: AttemptRequest, stream: boolean, model?: string): Buffer {
  const { sampling, tokenIds } = request;
  const others = JSON.stringify({
    request_id: request.requestId,
    model,
    features: request.features,
    stream,
    stream_options: stream ? STREAM_OPTIONS : undefined,
    sampling_params: {
      temperature: sampling.temperature ?? 1,
      top_p: sampling.topP ?? 1,
      top_k: sampling.topK ?? 0,
      min_p: sampling.minP ?? 0,
      max_tokens: request.maxTokens,
      seed: request.seed ?? undefined,
      logprobs: request.alternatives,
      ...wireLogits(sampling.logits),
    },
  });
  // The ids of a long conversation are written already.
  return Buffer.concat([IDS_BEGIN, ...tokenIds.json(), Buffer.from(`],${others.slice(1)}`)]);
}

const IDS_BEGIN = Buffer.from('{"token_ids":[');

/** Of GET /v1/models. `modalities` is ours: the proxy before vLLM adds it, by the model's own config. */
export function readIntake(text: string): Intake {
  const { data = [] } = JSON.parse(text) as { data?: { max_model_len?: number | null; modalities?: unknown }[] };
  const maxModelLen = data.find((model) => typeof model.max_model_len === "number")?.max_model_len ?? 0;
  const images = data.some(({ modalities }) => Array.isArray(modalities) && modalities.includes("image"));
  return { maxModelLen, images };
}

/** Undefined: the answer is none. */
export function readRendered(text: string): { ids: readonly number[]; features: unknown } | undefined {
  try {
    const { token_ids: ids, features } = JSON.parse(text) as { token_ids?: unknown; features?: unknown };
    const isWhole = Array.isArray(ids) && ids.every((id) => Number.isSafeInteger(id)) && Boolean(features);
    return isWhole ? { ids: ids as number[], features } : undefined;
  } catch {
    return undefined;
  }
}

/**
 * The tokens of a choice, or what is wrong with them. A token without a real log-probability cannot be trained, so the
 * whole attempt is thrown away and made again, rather than carrying on with a hole.
 */
export function readTokens(choice: WireChoice, alternatives: number): Tokens | string {
  const ids = choice.token_ids ?? [];
  const content = choice.logprobs?.content ?? [];
  if (content.length !== ids.length) {
    return `${ids.length} token ids but ${content.length} log-probabilities`;
  }
  const logprobs = content.map((entry) => entry.logprob ?? MISSING_LOGPROB);
  const bad = logprobs.findIndex((logprob) => !(logprob > MISSING_LOGPROB && logprob <= 0.001));
  if (bad >= 0) return `token ${bad} has the log-probability ${logprobs[bad]}`;
  return {
    ids,
    logprobs,
    alternatives: alternatives > 0 ? content.map((entry) => readAlternatives(entry, alternatives)) : [],
    supports: choice.sampling_mask ?? [],
  };
}

/** The engine puts the sampled token first and then the likeliest ones, so a list may be one longer than asked. */
function readAlternatives(entry: WireLogprob, wanted: number): Alternative[] {
  const all = (entry.top_logprobs ?? []).map(({ token_id: tokenId = -1, logprob = MISSING_LOGPROB }) => ({
    tokenId,
    logprob,
  }));
  const likeliest = new Map(all.toSorted((a, b) => b.logprob - a.logprob).map((one) => [one.tokenId, one]));
  return [...likeliest.values()].slice(0, wanted);
}
