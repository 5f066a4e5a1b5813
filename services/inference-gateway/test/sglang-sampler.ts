// SPDX-License-Identifier: Apache-2.0
// Samples as SGLang does, by the PyTorch engine: in as many requests of it as that takes.

/** Log-probability, token id, no text. */
export type Entry = [number | null, number, null];

interface Token {
  readonly own: Entry;
  readonly top: Entry[];
}

/** The body of /generate, as much of it as matters here. */
export interface NativeRequest {
  readonly rid: string;
  readonly input_ids: number[];
  readonly logprob_start_len?: number;
  readonly top_logprobs_num?: number;
  readonly extra_key?: string;
  readonly sampling_params: Partial<NativeSampling>;
}

interface NativeSampling {
  readonly max_new_tokens: number;
  readonly min_new_tokens: number;
  readonly temperature: number;
  readonly top_k: number;
  readonly ignore_eos: boolean;
  readonly stop_token_ids: number[];
  readonly sampling_seed: number | undefined;
}

const DEFAULTS: NativeSampling = {
  ...{ max_new_tokens: 128, min_new_tokens: 0, temperature: 1, top_k: -1, ignore_eos: false },
  ...{ stop_token_ids: [], sampling_seed: undefined },
};

export interface Sampled {
  readonly all: Token[];
  cached: number;
  scores: Entry[] | undefined;
}

interface Traits {
  readonly isOriginal: boolean | undefined;
  readonly isAborted: () => boolean;
}

type OnTokens = (sampled: Sampled) => void;

export class SglangSampler {
  readonly sampled: Sampled = { all: [], cached: 0, scores: undefined };
  readonly #engine: string;
  readonly #request: NativeRequest;
  readonly #traits: Traits;
  #onTokens: OnTokens = () => undefined;

  constructor(engine: string, request: NativeRequest, traits: Traits) {
    this.#engine = engine;
    this.#request = request;
    this.#traits = traits;
  }

  /** @returns why it ended */
  async run(onTokens: OnTokens): Promise<object> {
    this.#onTokens = onTokens;
    const { max_new_tokens: most, top_k: topK } = this.#sampling;
    if (this.#request.logprob_start_len === 0) await this.#score();
    if (this.#isDeaf) await this.#avoidStops();
    while (topK > 1 && this.sampled.all.length < most && !this.#traits.isAborted()) await this.#draw(topK);
    const left = most - this.sampled.all.length;
    if (left <= 0) return { type: "length", length: most };
    return await this.#ask({ max_tokens: left, ...(topK === 1 && { temperature: 0 }) });
  }

  get #sampling(): NativeSampling {
    return { ...DEFAULTS, ...this.#request.sampling_params };
  }

  /** With ignore_eos it does not stop at stop tokens either. */
  get #isDeaf(): boolean {
    return this.#sampling.ignore_eos && this.#sampling.stop_token_ids.length > 0;
  }

  /** The first `min_new_tokens` are none of them all the same. */
  async #avoidStops(): Promise<void> {
    const { min_new_tokens: least, stop_token_ids: stops } = this.#sampling;
    const logit_bias = Object.fromEntries(stops.map((id) => [id, -100]));
    if (least > 0) await this.#ask({ max_tokens: least, logit_bias });
  }

  /** One token out of the likeliest k. Its log-probability is that among all. */
  async #draw(k: number): Promise<void> {
    const { top_logprobs_num: named = 0 } = this.#request;
    await this.#ask({ max_tokens: 1, logprobs: 20 }, () => undefined);
    const { top } = this.sampled.all.pop() as Token;
    const kept = top.slice(0, k);
    const chance = ((this.#sampling.sampling_seed ?? 0) % 997) / 997;
    let point = chance * kept.reduce((sum, [logprob]) => sum + Math.exp(logprob ?? -Infinity), 0);
    const drawn = kept.find(([logprob]) => (point -= Math.exp(logprob ?? -Infinity)) <= 0) ?? kept[0]!;
    this.sampled.all.push({ own: drawn, top: top.slice(0, named) });
    this.#onTokens(this.sampled);
  }

  async #score(): Promise<void> {
    const { input_ids: token_ids } = this.#request;
    const body = { token_ids, sampling_params: { max_tokens: 1, prompt_logprobs: 0 } };
    const response = await this.#post(body);
    const { prompt_logprobs: scores } = (await response.json()) as {
      prompt_logprobs: (Record<string, { logprob: number }> | null)[];
    };
    this.sampled.scores = scores.map((score, i) => {
      const id = token_ids[i] as number;
      return [score?.[id]?.logprob ?? null, id, null];
    });
  }

  async #ask(more: object, onTokens = this.#onTokens): Promise<object> {
    let finish: object = { type: "abort", message: "Aborted" };
    for await (const { choices, usage } of eventsOf(await this.#post(this.#body(more)))) {
      this.sampled.cached ||= usage?.prompt_tokens_details?.cached_tokens ?? 0;
      for (const choice of choices) finish = this.#take(choice, onTokens) ?? finish;
    }
    return finish;
  }

  #take({ logprobs, finish_reason: type, stop_reason: matched }: WireChoice, onTokens: OnTokens): object | undefined {
    const tokens = (logprobs?.content ?? []).map(tokenOf);
    this.sampled.all.push(...tokens);
    if (tokens.length > 0) onTokens(this.sampled);
    // An answer that ended by itself names the token that its tokenizer calls the last one.
    return type ? { type, matched: matched ?? 257 } : undefined;
  }

  #body(more: object): object {
    const { rid, input_ids: ids, extra_key: salt, top_logprobs_num: named = 0 } = this.#request;
    const { temperature, ignore_eos, stop_token_ids, sampling_seed: seed, min_new_tokens: least } = this.#sampling;
    const sampling_params = {
      ...{ temperature: this.#traits.isOriginal === true ? 1 : temperature, ignore_eos, seed },
      ...{ min_tokens: ignore_eos ? 0 : least, stop_token_ids: this.#isDeaf ? [] : stop_token_ids },
      ...{ logprobs: Math.min(20, named), ...more },
    };
    const token_ids = [...ids, ...this.sampled.all.map(({ own }) => own[1])];
    const stream = { stream: true, stream_options: { include_usage: true } };
    return { request_id: rid, token_ids, cache_salt: salt, ...stream, sampling_params };
  }

  async #post(body: object): Promise<Response> {
    const response = await fetch(`${this.#engine}/inference/v1/generate`, {
      method: "POST",
      body: JSON.stringify(body),
    });
    if (!response.ok) throw new Error(await response.text());
    return response;
  }
}

interface WireEvent {
  readonly choices: readonly WireChoice[];
  readonly usage?: { readonly prompt_tokens_details?: { readonly cached_tokens: number } };
}

interface WireChoice {
  readonly logprobs?: { readonly content: readonly WireToken[] };
  readonly finish_reason?: string;
  readonly stop_reason?: number | null;
}

interface WireToken {
  readonly token_id: number;
  readonly logprob: number;
  readonly top_logprobs: { readonly token_id: number; readonly logprob: number }[];
}

async function* eventsOf({ body }: Response): AsyncGenerator<WireEvent> {
  let rest = "";
  for await (const piece of body?.pipeThrough(new TextDecoderStream()) ?? []) {
    const lines = (rest + piece).split("\n");
    rest = lines.pop() ?? "";
    for (const line of lines) if (line.startsWith("data: {")) yield JSON.parse(line.slice(6)) as WireEvent;
  }
}

/** The engine names the sampled token first and then the likeliest ones, SGLang the likeliest ones only. */
function tokenOf({ token_id, logprob, top_logprobs: [, ...others] }: WireToken): Token {
  const all = [{ token_id, logprob }, ...others].toSorted((a, b) => b.logprob - a.logprob);
  return { own: [logprob, token_id, null], top: all.map((one) => [one.logprob, one.token_id, null]) };
}
