// SPDX-License-Identifier: Apache-2.0
/** What SGLang answers, in the words of /inference/v1/generate. */
import { RefusedCall } from "../wire/http-parts.ts";
import type { Asked } from "./generate-request.ts";
import type { Entry, Meta } from "./native.ts";

/** As vLLM writes a log-probability that is missing or −inf. */
const MISSING_LOGPROB = -9999;

interface Scored {
  readonly token_id: number;
  readonly logprob: number;
}

interface Token extends Scored {
  readonly top_logprobs: readonly Scored[];
}

/** The tokens of one event that were not in those before it. */
export interface Part {
  readonly ids: readonly number[];
  readonly content: readonly Token[];
  /** What each token was drawn from; empty: from all. */
  readonly masks: readonly (readonly number[])[];
  /** Undefined: it goes on. */
  readonly finishReason: string | undefined;
  readonly stopReason: number | null;
}

export interface Usage {
  readonly prompt_tokens: number;
  readonly completion_tokens: number;
  readonly total_tokens: number;
  readonly prompt_tokens_details: { readonly cached_tokens: number };
}

interface Fresh {
  readonly entries: readonly Entry[];
  readonly tops: readonly (readonly Entry[] | null)[];
  readonly isCut: boolean;
}

/** It was sampled by other weights than those that it began under. */
export class LabelChanged extends RefusedCall {
  constructor(expected: string, found: string | undefined) {
    const message = `the label of the weights was "${expected}" when this began, and is "${found}": ask again`;
    super(503, "ServiceUnavailable", message);
  }
}

/** Reads the outputs of one request one after the other. All of them have to carry the label that it began under (I5). */
export class AnswerParts {
  readonly #asked: Asked;
  readonly #label: string;
  #sent = 0;
  #cached = 0;

  constructor(asked: Asked, label: string) {
    this.#asked = asked;
    this.#label = label;
  }

  get usage(): Usage {
    const [prompt, completion] = [this.#asked.ids.length, this.#sent];
    return {
      ...{ prompt_tokens: prompt, completion_tokens: completion, total_tokens: prompt + completion },
      prompt_tokens_details: { cached_tokens: this.#cached },
    };
  }

  /** One label for all: an answer with another one does not come so far. */
  get spans(): readonly { version: string; start: number; end: number }[] {
    return this.#sent === 0 ? [] : [{ version: this.#label, start: 0, end: this.#sent }];
  }

  /** @throws RefusedCall for an answer that is an error, or that cannot be trusted */
  read(meta: Meta): Part {
    this.#mustBeLabelled(meta);
    mustBeNoError(meta);
    this.#cached = meta.cached_tokens ?? this.#cached;
    const { entries, tops, isCut } = this.#fresh(meta);
    const { topK, stops, logprobs } = this.#asked;
    this.#sent += entries.length;
    const reason = isCut ? { type: "stop", matched: entries.at(-1)?.[1] } : meta.finish_reason;
    const matched = reason?.matched;
    return {
      ids: entries.map(([, id]) => id),
      content: logprobs === undefined ? [] : entries.map((entry, i) => this.#token(entry, tops[i] ?? [])),
      masks: topK === 0 ? [] : entries.map((_, i) => this.#candidates(tops[i] ?? []).map(([, id]) => id)),
      finishReason: reason?.type,
      stopReason: typeof matched === "number" && stops.has(matched) ? matched : null,
    };
  }

  /** Its new tokens, and what else was likely; no more of them than up to where it was to stop. */
  #fresh(meta: Meta): Fresh {
    const from = this.#freshFrom(meta);
    const [entries, tops] = [
      (meta.output_token_logprobs ?? []).slice(from),
      (meta.output_top_logprobs ?? []).slice(from),
    ];
    const cut = this.#asked.isCutHere ? entries.findIndex(([, id]) => this.#asked.stops.has(id)) : -1;
    return { entries: cut < 0 ? entries : entries.slice(0, cut + 1), tops, isCut: cut >= 0 };
  }

  #mustBeLabelled({ weight_version: label, weight_versions: spans }: Meta): void {
    const foreign = [label, ...(spans ?? []).map(({ version }) => version)].find((found) => found !== this.#label);
    if (label !== this.#label || foreign !== undefined) throw new LabelChanged(this.#label, foreign ?? label);
  }

  /** Where the new tokens begin. An event has all tokens so far, or with --incremental-streaming-output the new ones. */
  #freshFrom({ output_token_logprobs: entries, completion_tokens: total }: Meta): number {
    const length = entries?.length ?? 0;
    if (length === total) return this.#sent;
    if (this.#sent + length === total) return 0;
    const counts = `${length} log-probabilities for ${total} tokens`;
    throw new RefusedCall(
      500,
      "InternalServerError",
      `SGLang's answer is broken: ${counts}, of which ${this.#sent} came`,
    );
  }

  /** The sampled token first, then the likeliest ones. */
  #token([logprob, id]: Entry, top: readonly Entry[]): Token {
    const shift = this.#massOf(top);
    const scored = (entry: Entry): Scored => ({ token_id: entry[1], logprob: shifted(entry[0], shift) });
    const sampled = scored([logprob, id]);
    const others = this.#candidates(top)
      .slice(0, this.#asked.logprobs)
      .filter((entry) => entry[1] !== id);
    return { ...sampled, top_logprobs: [sampled, ...others.map(scored)] };
  }

  #candidates(top: readonly Entry[]): readonly Entry[] {
    return this.#asked.topK === 0 ? top : top.slice(0, this.#asked.topK);
  }

  /** The log of the probability of all that it was drawn from. 0 where that is everything. */
  #massOf(top: readonly Entry[]): number {
    if (this.#asked.topK === 0) return 0;
    return Math.log(this.#candidates(top).reduce((sum, [logprob]) => sum + Math.exp(logprob ?? -Infinity), 0));
  }
}

/** SGLang streams some errors as answers that were aborted. */
function mustBeNoError({ finish_reason: reason }: Meta): void {
  if (reason?.type === "abort" && typeof reason.status_code === "number")
    throw new RefusedCall(reason.status_code, "BadRequestError", reason.message ?? "SGLang ended it");
}

function shifted(logprob: number | null, shift: number): number {
  const value = (logprob ?? NaN) - shift;
  // Rounding may leave a probability a hair above 1.
  return Number.isFinite(value) ? Math.max(MISSING_LOGPROB, Math.min(0, value)) : MISSING_LOGPROB;
}
