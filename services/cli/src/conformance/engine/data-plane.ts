// SPDX-License-Identifier: Apache-2.0
/** T01 to T07 of the engine protocol: what an engine samples, and what it says of it. */
import { Skipped } from "../run-checks.ts";
import { type Answer, difference, same } from "./answer.ts";
import { shown } from "./engine-api.ts";
import { type Engine, must } from "./engine.ts";
import type { EngineCheck } from "./engine-check.ts";

const SEED = 42;
const SCORED_TOKENS = 24;
/** Seeds that are tried before they are said to make no difference. */
const SEEDS = 8;
/** Answers that are tried until one ends by itself. */
const HOT_ANSWERS = 48;
const HOT_AT_ONCE = 8;
/** What vLLM writes for a log-probability that is missing, NaN or −inf. */
const MISSING_LOGPROB = -9999;

const echoesTokens: EngineCheck = async (engine) => {
  const { prompt } = engine.facts;
  const { ids, logprobs, named, usage, requestId } = await engine.generate(prompt, {
    ...{ max_tokens: 6, temperature: 1, seed: SEED },
  });
  must(usage?.prompt_tokens === prompt.length, `usage.prompt_tokens is ${usage?.prompt_tokens}, not ${prompt.length}`);
  must(ids.length === 6, `max_tokens 6 with ignore_eos gave ${ids.length} tokens`);
  must(usage?.completion_tokens === 6, `usage.completion_tokens is ${usage?.completion_tokens}, not 6`);
  must(logprobs.length === 6, `${logprobs.length} log-probabilities for 6 tokens`);
  const wrong = logprobs.find((value) => !(value <= 0 && value > MISSING_LOGPROB));
  must(wrong === undefined, `a sampled token's log-probability is ${wrong}`);
  const other = named.findIndex((id, i) => id !== undefined && id !== ids[i]);
  must(other < 0, `the log-probability of token ${ids[other]} is that of ${named[other]}`);
  must(requestId !== "", "the answer has no request_id, by which it could be aborted");
  return `${prompt.length} tokens in, 6 out, each with its log-probability`;
};

const streamsTheSame: EngineCheck = async (engine) => {
  const sampling = { max_tokens: 9, logprobs: 2 };
  const whole = await engine.generate(engine.facts.prompt, sampling);
  const running = engine.start(engine.facts.prompt, sampling, { stream_options: { include_usage: true } });
  const streamed = await running.end();
  mustBeSame("streamed", whole, streamed, engine);
  const reasons = [whole.finishReason, streamed.finishReason];
  must(
    reasons.every((reason) => reason === "length"),
    `it ends with ${reasons.join(" whole and ")} streamed, not length`,
  );
  const { usage } = streamed;
  must(usage !== undefined, "stream_options.include_usage brings no usage");
  must(usage.completion_tokens === 9, `the stream's usage.completion_tokens is ${usage.completion_tokens}, not 9`);
  must(
    JSON.stringify(streamed.spans) === JSON.stringify(whole.spans),
    `weight_versions are ${shown(whole.spans)} whole and ${shown(streamed.spans)} streamed`,
  );
  return `9 tokens in ${running.chunks.length} events, the same as whole`;
};

interface Completion {
  readonly choices?: readonly {
    readonly token_ids?: readonly number[];
    readonly prompt_token_ids?: readonly number[];
    readonly logprobs?: { readonly token_logprobs?: readonly number[] } | null;
  }[];
}

const completesTheSame: EngineCheck = async (engine) => {
  const { model, prompt } = engine.facts;
  const whole = await engine.generate(prompt, { max_tokens: 7, logprobs: 2 });
  const asked = { model, prompt, max_tokens: 7, temperature: 0, logprobs: 0, ignore_eos: true, return_token_ids: true };
  const { choices } = (await engine.ok("/v1/completions", asked)).body as Completion;
  const { token_ids: ids = [], prompt_token_ids: echoed, logprobs } = choices?.[0] ?? {};
  must(same(echoed, prompt), `prompt_token_ids are ${shown(echoed)}, not the prompt's`);
  mustBeSame("by /v1/completions", whole, { ...whole, ids, logprobs: logprobs?.token_logprobs ?? [] }, engine);
  return "/v1/completions with return_token_ids answers as /inference/v1/generate";
};

/** The engine scores its own answer in one pass; what it said while it sampled must be the same. */
const scoresAsItSampled: EngineCheck = async (engine) => {
  const { prompt } = engine.facts;
  let most = 0;
  for (const temperature of [0, 1]) {
    const { ids, logprobs } = await engine.generate(prompt, { max_tokens: SCORED_TOKENS, temperature, seed: SEED });
    const scores = await promptLogprobs(engine, [...prompt, ...ids]);
    for (const [i, id] of ids.entries()) {
      const score = scores[prompt.length + i]?.[id]?.logprob ?? NaN;
      const apart = Math.abs(score - (logprobs[i] ?? NaN));
      must(apart <= engine.settings.tolerance, `token ${i} was sampled at ${logprobs[i]} and is scored at ${score}`);
      most = Math.max(most, apart);
    }
  }
  return `${2 * SCORED_TOKENS} tokens, at most ${most.toExponential(1)} apart from one pass over all of them`;
};

type Scores = readonly (Readonly<Record<string, { readonly logprob?: number }>> | null)[];

async function promptLogprobs(engine: Engine, ids: readonly number[]): Promise<Scores> {
  const body = engine.body(ids, { max_tokens: 1, prompt_logprobs: 0 });
  const { status, body: answer } = await engine.api.post("/inference/v1/generate", body);
  const { prompt_logprobs: scores } = (answer ?? {}) as { prompt_logprobs?: Scores | null };
  if (status === 200 && scores) return scores;
  throw new Skipped(`it does not score a prompt (prompt_logprobs): ${shown(status === 200 ? "no scores" : answer)}`);
}

/** Processed log-probabilities are those of the distribution that was sampled from. */
const logprobsAreProcessed: EngineCheck = async (engine) => {
  const { prompt } = engine.facts;
  const { tolerance } = engine.settings;
  const single = await engine.generate(prompt, { max_tokens: 4, temperature: 0.5, top_k: 1, seed: SEED });
  const raw = single.logprobs.find((value) => value !== 0);
  must(single.logprobs.length === 4, "there are no log-probabilities");
  must(raw === undefined, `with top_k 1 a token has the log-probability ${raw}, not 0: they are raw, not processed`);
  const truncated = await engine.generate(prompt, { max_tokens: 1, temperature: 1, top_k: 5, logprobs: 8, seed: SEED });
  const kept = valuesOf(truncated).filter((value) => value > MISSING_LOGPROB);
  const sum = kept.reduce((total, value) => total + Math.exp(value), 0);
  must(Math.abs(sum - 1) <= tolerance, `the ${kept.length} tokens that top_k 5 kept sum to ${sum.toFixed(4)}, not 1`);
  const [warm, cold] = await Promise.all(
    [1, 0.5].map((temperature) => engine.generate(prompt, { max_tokens: 1, temperature, logprobs: 5, seed: SEED })),
  );
  mustBeTwiceAsSharp(warm as Answer, cold as Answer, tolerance);
  return "0 with top_k 1; the kept ones sum to 1; halving the temperature doubles their distances";
};

function valuesOf({ alternatives }: Answer): number[] {
  return [...(alternatives[0]?.values() ?? [])];
}

function mustBeTwiceAsSharp(warm: Answer, cold: Answer, tolerance: number): void {
  const nothing: ReadonlyMap<number, number> = new Map();
  const [one, other] = [warm.alternatives[0] ?? nothing, cold.alternatives[0] ?? nothing];
  const shared = [...one.keys()].filter((id) => other.has(id));
  must(shared.length >= 2, "logprobs 5 names fewer than two alternatives of the first token");
  const [first, last] = [shared[0] as number, shared.at(-1) as number];
  const distance = (of: ReadonlyMap<number, number>): number => (of.get(first) ?? NaN) - (of.get(last) ?? NaN);
  const [at1, atHalf] = [distance(one), distance(other)];
  const isDouble = Math.abs(atHalf - 2 * at1) <= 4 * tolerance;
  must(isDouble, `two tokens are ${at1.toFixed(4)} apart at temperature 1 and ${atHalf.toFixed(4)} at 0.5, not twice`);
}

const stopsWhereAsked: EngineCheck = async (engine) => {
  const { prompt } = engine.facts;
  const { ids: greedy } = await engine.generate(prompt, { max_tokens: 12 });
  const stop = greedy[3] as number;
  const first = greedy.indexOf(stop);
  const stopped = await engine.generate(prompt, { max_tokens: 12, stop_token_ids: [stop] });
  must(stopped.finishReason === "stop", `stop_token_ids [${stop}]: it ends with ${stopped.finishReason}`);
  must(stopped.stopReason === stop, `stop_token_ids [${stop}]: stop_reason is ${shown(stopped.stopReason)}`);
  must(
    same(stopped.ids, greedy.slice(0, first + 1)),
    `stop_token_ids [${stop}]: it answers ${shown(stopped.ids)}, not ${shown(greedy.slice(0, first + 1))}`,
  );
  const least = first + 2;
  const later = await engine.generate(prompt, { max_tokens: 12, stop_token_ids: [stop], min_tokens: least });
  const isLater = later.ids.length >= least && !later.ids.slice(0, least - 1).includes(stop);
  must(isLater, `min_tokens ${least} does not keep it from ending: ${shown(later.ids)}`);
  return `stop_token_ids, min_tokens, max_tokens; ${await endsByItself(engine)}`;
};

/** Hot answers end by themselves sooner or later, unless that is to be ignored. */
async function endsByItself(engine: Engine): Promise<string> {
  const hot = { max_tokens: 60, temperature: 2 };
  for (let first = 0; first < HOT_ANSWERS; first += HOT_AT_ONCE) {
    const seeds = Array.from({ length: HOT_AT_ONCE }, (_, i) => first + i);
    const answers = await Promise.all(
      seeds.map((seed) => engine.generate(engine.facts.prompt, { ...hot, seed, ignore_eos: false })),
    );
    const ended = answers.findIndex(({ finishReason }) => finishReason === "stop");
    if (ended < 0) continue;
    const { stopReason } = answers[ended] as Answer;
    must(stopReason === undefined, `an answer that ended by itself has the stop_reason ${shown(stopReason)}`);
    const { ids } = await engine.generate(engine.facts.prompt, { ...hot, seed: first + ended });
    must(ids.length === hot.max_tokens, `ignore_eos: an answer ended all the same, after ${ids.length} tokens`);
    return "its own end, unless ignore_eos";
  }
  return `of ${HOT_ANSWERS} hot answers none ended by itself within ${hot.max_tokens} tokens`;
}

const seedsAreKept: EngineCheck = async (engine) => {
  const { prompt } = engine.facts;
  const drawn = (seed: number): Promise<Answer> =>
    engine.generate(prompt, { max_tokens: 20, temperature: 2, logprobs: 0, seed });
  await drawn(SEED); // From here on the prompt is cached, or never.
  const [first, second] = [await drawn(SEED), await drawn(SEED)];
  must(same(first.ids, second.ids), `seed ${SEED} gave ${shown(first.ids)} and ${shown(second.ids)}`);
  for (let i = 1; i < SEEDS; i += 1) {
    if (!same((await drawn(SEED + i)).ids, first.ids)) return `one seed, one answer; seed ${SEED + i} another one`;
  }
  throw new Error(`${SEEDS} seeds gave the same 20 tokens at temperature 2`);
};

function mustBeSame(how: string, whole: Answer, other: Answer, { settings }: Engine): void {
  const apart = difference(whole, other, settings.tolerance);
  must(apart === undefined, `${how}, ${apart}`);
}

export const DATA_PLANE: Readonly<Record<string, EngineCheck>> = {
  "T01 token echo": echoesTokens,
  "T02 stream": streamsTheSame,
  "T03 completions": completesTheSame,
  "T04 scores": scoresAsItSampled,
  "T05 log-probabilities": logprobsAreProcessed,
  "T06 stops": stopsWhereAsked,
  "T07 seeds": seedsAreKept,
};
