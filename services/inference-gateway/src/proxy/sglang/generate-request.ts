// SPDX-License-Identifier: Apache-2.0
/** A call of /inference/v1/generate in SGLang's words. */
import { z } from "zod";
import { parsedJson, RefusedCall } from "../wire/http-parts.ts";
import type { SglangFacts } from "./inspect.ts";

/** Candidates of truncated sampling that SGLang is asked to name for each token. */
const MOST_TOP_K = 512;
const MOST_SEED = 2 ** 31;

const logit = z.number();
const SamplingSchema = z.object({
  temperature: z.number().min(0).max(2).default(1),
  top_p: z.number().gt(0).max(1).default(1),
  top_k: z.int().min(-1).default(0),
  min_p: z.number().min(0).max(1).default(0),
  max_tokens: z.int().min(1),
  min_tokens: z.int().min(0).default(0),
  seed: z.int().optional(),
  stop_token_ids: z.array(z.int().min(0)).default([]),
  ignore_eos: z.boolean().default(false),
  logprobs: z.int().min(0).max(20).optional(),
  prompt_logprobs: z.literal(0, "SGLang scores the prompt's own tokens only: 0").optional(),
  frequency_penalty: logit.min(-2).max(2).optional(),
  presence_penalty: logit.min(-2).max(2).optional(),
  repetition_penalty: logit.gt(0).max(2).optional(),
  logit_bias: z.record(z.string(), logit).optional(),
  structured_outputs: z
    .strictObject({ json: z.union([z.string(), z.looseObject({})]).optional(), json_object: z.boolean().optional() })
    .optional(),
  n: z.literal(1, "it answers once").optional(),
  stop: z.array(z.string()).max(0, "it stops at token ids only (stop_token_ids)").optional(),
});

const RequestSchema = z.object({
  request_id: z.string().min(1).optional(),
  model: z.string().optional(),
  token_ids: z.array(z.int().min(0)).min(1),
  stream: z.boolean().default(false),
  stream_options: z
    .object({ include_usage: z.boolean().optional(), continuous_weight_versions: z.boolean().optional() })
    .default({}),
  cache_salt: z
    .string()
    .min(1)
    .regex(/^[^@]*$/, 'may not have an "@"')
    .optional(),
  features: z.undefined("pictures are not passed to SGLang").optional(),
  sampling_params: z.preprocess(withoutNulls, SamplingSchema),
});

/** A request that is well formed; what SGLang is to be asked is in `native`. */
export interface Asked {
  readonly id: string | undefined;
  readonly ids: readonly number[];
  readonly isStream: boolean;
  readonly wantsUsage: boolean;
  readonly wantsSpans: boolean;
  /** How many alternatives of each token; undefined: no log-probabilities. */
  readonly logprobs: number | undefined;
  readonly isScored: boolean;
  /** It draws from so many tokens; 0: from all. */
  readonly topK: number;
  readonly stops: ReadonlySet<number>;
  /** SGLang does not stop there: with `ignore_eos` it ignores them too. */
  readonly isCutHere: boolean;
  /** The body of /generate, without its name. */
  readonly native: object;
}

/** @throws RefusedCall with what is wrong */
export function readRequest(text: string, { model, folder, maxModelLen }: SglangFacts): Asked {
  const { data, error } = RequestSchema.safeParse(withoutNulls(parsedJson(text)));
  if (error) throw badRequest(error);
  if (![undefined, model, folder].includes(data.model))
    throw new RefusedCall(404, "NotFoundError", `The model ${JSON.stringify(data.model)} does not exist.`);
  const { sampling_params: sampling, token_ids: ids } = data;
  if (ids.length >= maxModelLen)
    throw bad(`token_ids: ${ids.length} tokens leave no room for an answer within ${maxModelLen}`);
  const isGreedy = sampling.temperature === 0;
  const topK = isGreedy ? 0 : Math.max(0, sampling.top_k);
  if (!isGreedy) refuseTruncation(sampling);
  const stops = new Set(sampling.stop_token_ids);
  const isCutHere = sampling.ignore_eos && stops.size > 0;
  const isScored = sampling.prompt_logprobs !== undefined;
  const native = {
    ...{ input_ids: ids, return_logprob: true, logprob_start_len: isScored ? 0 : -1 },
    top_logprobs_num: Math.max(topK, sampling.logprobs ?? 0),
    stream: data.stream || isCutHere,
    ...(data.cache_salt !== undefined && { extra_key: data.cache_salt }),
    sampling_params: nativeSampling(sampling),
  };
  return {
    ...{ id: data.request_id, ids, isStream: data.stream, logprobs: sampling.logprobs, isScored },
    ...{ topK, stops, isCutHere, native },
    wantsUsage: data.stream_options.include_usage === true,
    wantsSpans: data.stream_options.continuous_weight_versions === true,
  };
}

/** SGLang's log-probabilities are those before truncation. After top_k they follow from its k likeliest tokens; after others not. */
function refuseTruncation({ top_p: topP, min_p: minP, top_k: topK }: Sampling): void {
  if (topP < 1 || minP > 0)
    throw bad("top_p and min_p: SGLang gives log-probabilities before them only; ask for top_p 1 and min_p 0");
  if (topK > MOST_TOP_K) throw bad(`top_k: at most ${MOST_TOP_K} with SGLang`);
}

type Sampling = z.output<typeof SamplingSchema>;

function nativeSampling(sampling: Sampling): object {
  const { max_tokens, min_tokens, seed, top_k, structured_outputs: form, stop_token_ids, ...others } = sampling;
  const { temperature, top_p, min_p, ignore_eos } = others;
  const { frequency_penalty, presence_penalty, repetition_penalty, logit_bias } = others;
  return {
    ...{ temperature, top_p, min_p, ignore_eos, stop_token_ids },
    ...{ frequency_penalty, presence_penalty, repetition_penalty, logit_bias },
    ...{ max_new_tokens: max_tokens, min_new_tokens: min_tokens, top_k: top_k > 0 ? top_k : -1 },
    // With --enable-deterministic-inference all that have none have the same one, and a group's episodes would be equal.
    sampling_seed: seed ?? Math.floor(Math.random() * MOST_SEED),
    skip_special_tokens: false,
    ...(form && { json_schema: schemaOf(form) }),
  };
}

function schemaOf({ json }: NonNullable<Sampling["structured_outputs"]>): string {
  if (json === undefined) return '{"type": "object"}';
  return typeof json === "string" ? json : JSON.stringify(json);
}

function bad(message: string): RefusedCall {
  return new RefusedCall(400, "BadRequestError", message);
}

export function badRequest({ issues: [issue] }: z.ZodError): RefusedCall {
  return bad(`${issue?.path.join(".") || "the body"}: ${issue?.message}`);
}

/** A field that is null was not given. */
function withoutNulls(value: unknown): unknown {
  if (typeof value !== "object" || value === null || Array.isArray(value)) return value;
  return Object.fromEntries(Object.entries(value).filter(([, field]) => field !== null));
}
