// SPDX-License-Identifier: Apache-2.0
/** As much of SGLang's own answers as is read, by its io_struct.py and tokenizer_manager.py, releases 0.5.3 to 0.5.23. */
import { z } from "zod";
import { parsedJson } from "../wire/http-parts.ts";

/** Log-probability, token id, and its text or null. A number that JSON cannot write is null. */
const EntrySchema = z.tuple([z.number().nullable(), z.int().min(0)]).rest(z.unknown());
export type Entry = z.output<typeof EntrySchema>;

const FinishSchema = z.looseObject({
  type: z.string(),
  /** The token, or the text, that ended it. */
  matched: z.unknown().optional(),
  message: z.string().nullish(),
  /** Of an answer that is an error. */
  status_code: z.int().nullish(),
});

export const MetaSchema = z.looseObject({
  finish_reason: FinishSchema.nullish(),
  /** An answer that was aborted in the queue has none. */
  prompt_tokens: z.int().optional(),
  completion_tokens: z.int().default(0),
  cached_tokens: z.int().nullish(),
  weight_version: z.string().optional(),
  /** From 0.5.20 on, and not in every answer. */
  weight_versions: z.array(z.looseObject({ version: z.string() })).nullish(),
  output_token_logprobs: z.array(EntrySchema).nullish(),
  output_top_logprobs: z.array(z.array(EntrySchema).nullable()).nullish(),
  input_token_logprobs: z.array(EntrySchema).nullish(),
});
export type Meta = z.output<typeof MetaSchema>;

/** An answer of /generate, or one event of its stream: all tokens so far, or (--incremental-streaming-output) the new ones. */
export const OutputSchema = z.looseObject({ meta_info: MetaSchema });
export type Output = z.output<typeof OutputSchema>;

export const ModelInfoSchema = z.looseObject({ model_path: z.string(), weight_version: z.string().nullish() });
export type ModelInfo = z.output<typeof ModelInfoSchema>;

const count = z.int().min(1).default(1);
export const ServerInfoSchema = z.looseObject({
  version: z.string().default(""),
  tp_size: count,
  pp_size: count,
  dp_size: count,
  tokenizer_worker_num: count,
});
export type ServerInfo = z.output<typeof ServerInfoSchema>;

export const ModelListSchema = z.looseObject({
  data: z.array(z.looseObject({ id: z.string(), max_model_len: z.int().min(1) })).min(1),
});

/** Of an error, with and without SGLang's envelope. */
export function errorText(text: string): string {
  const { error, message } = (parsedJson(text) ?? {}) as { error?: { message?: unknown }; message?: unknown };
  const said = error?.message ?? message;
  return typeof said === "string" ? said : text.slice(0, 300);
}
