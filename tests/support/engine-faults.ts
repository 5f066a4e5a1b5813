// SPDX-License-Identifier: Apache-2.0
// Faults of engines, each in one place of the engine protocol, and what `whet engines check` must say of them.
import { setTimeout as delay } from "node:timers/promises";
import type { Answer, Call, Choice, Fault, Wire } from "./faulty-engine.ts";

export interface PlantedFault {
  readonly fault: Fault;
  /** By the name of the check that must fail. */
  readonly says: Readonly<Record<string, RegExp>>;
}

const GENERATE = "POST /inference/v1/generate";
const LOAD = "POST /collective_rpc";

const choicesOf = (body: Wire | string): Choice[] => (typeof body === "string" ? [] : (body.choices ?? []));
const samplingOf = ({ body }: Call): Record<string, unknown> => body?.sampling_params ?? {};

/** Changes each whole answer of a route. */
const inAnswers = (route: string, change: (body: Wire, call: Call) => void): Fault => ({
  after: (call, { status, body }) => {
    if (call.route === route && status === 200 && typeof body !== "string") change(body, call);
  },
});

/** Changes a call on its way. */
const inCalls = (route: string, change: (call: Call) => void): Fault => ({
  before: (call) => {
    if (call.route === route) change(call);
    return undefined;
  },
});

/** Answers a call itself, and tells the engine nothing. */
const instead = (route: string, body: Wire): Fault => ({
  before: (call) => (call.route === route ? { status: 200, body } : undefined),
});

const countsTooMany = inAnswers(GENERATE, ({ usage }) => {
  if (usage) usage.prompt_tokens += 1;
});

const otherScores = inAnswers(GENERATE, (body) => {
  for (const entry of (body["prompt_logprobs"] ?? []) as (Record<string, { logprob: number }> | null)[])
    for (const one of Object.values(entry ?? {})) one.logprob *= 1.1;
});

const rawLogprobs = inAnswers(GENERATE, (body, call) => {
  if (samplingOf(call)["top_k"] !== 1) return;
  for (const { logprobs } of choicesOf(body)) for (const entry of logprobs?.content ?? []) entry.logprob = -1.5;
});

const noStreamUsage: Fault = { event: (_call, event) => !event.usage };

const otherErrors: Fault = {
  after: (_call, answer) => {
    if (answer.status === 400) answer.body = { detail: "bad request" };
  },
};

const lostMetric: Fault = {
  after: ({ route }, answer) => {
    if (route === "GET /metrics" && typeof answer.body === "string")
      answer.body = answer.body.replace(/^vllm:prefix_cache_hits_total.*\n/mu, "");
  },
};

const ownLabel: Fault = {
  after: ({ route }, answer) => {
    if (route === GENERATE) answer.label = "other";
  },
};

const turnsAway: Fault = {
  before: async ({ route }, engine) => {
    if (route !== GENERATE || !(await engine.isPaused())) return undefined;
    return { status: 503, body: { error: { message: "paused", type: "ServiceUnavailable", param: null, code: 503 } } };
  },
};

const refusesSecondPause: Fault = {
  before: async ({ route }, engine): Promise<Answer | undefined> =>
    route === "POST /pause" && (await engine.isPaused()) ? { status: 500, body: { error: "paused" } } : undefined,
};

/** Says that it is paused, and is so later. */
function pausesLate(): Fault {
  let pausing: Promise<unknown> = Promise.resolve();
  return {
    before: async ({ route, query }, engine) => {
      if (route === "POST /resume") await pausing;
      if (route !== "POST /pause" || !query.includes("mode=keep")) return undefined;
      pausing = delay(600).then(() => engine.post(`/pause${query}`));
      return { status: 200, body: { status: "paused" } };
    },
  };
}

const labelsEarly: Fault = {
  before: async ({ route }, engine) => {
    if (route === LOAD) await engine.post("/update_weight_version", { new_version: "early" });
    return undefined;
  },
};

const resumesAfterFailure: Fault = {
  before: async ({ route, body }, engine) => {
    if (route !== LOAD) return undefined;
    const answer = await engine.post("/collective_rpc", body);
    if (answer.status !== 200) await engine.post("/resume");
    return answer;
  },
};

const lastLabelForAll: Fault = {
  event: (_call, event) => {
    for (const choice of choicesOf(event)) {
      const [first, last] = [choice.weight_versions?.[0], choice.weight_versions?.at(-1)];
      if (first && last) choice.weight_versions = [{ ...last, start: first.start }];
    }
  },
};

/** Engines with several faults each, no two of which are in the same place. */
export const FAULTY_ENGINES: readonly Readonly<Record<string, PlantedFault>>[] = [
  {
    "counts a token of the prompt too many": {
      fault: countsTooMany,
      says: { "T01 token echo": /usage\.prompt_tokens is 25, not 24/ },
    },
    "completes another prompt": {
      fault: inCalls("POST /v1/completions", ({ body }) => void (body?.["prompt"] as number[]).reverse()),
      says: { "T03 completions": /prompt_token_ids are .* not the prompt's/ },
    },
    "drops min_tokens": {
      fault: inCalls(GENERATE, (call) => delete samplingOf(call)["min_tokens"]),
      says: { "T06 stops": /min_tokens \d+ does not keep it from ending/ },
    },
    "has another form of errors": { fault: otherErrors, says: { "T08 errors": /no error object/ } },
    "does not count what its cache had": {
      fault: lostMetric,
      says: { "T30 metrics": /has no vllm:prefix_cache_hits_total/ },
    },
    "lets answers go on to their end when it is paused": {
      fault: inCalls("POST /pause", (call) => (call.query = call.query.replace("mode=abort", "mode=wait"))),
      says: { "T10 pause": /mode=abort ends with length|a stream goes on .* later|POST \/pause.* no answer within/ },
    },
    "turns requests away while it is paused": {
      fault: turnsAway,
      says: {
        "T11 queue": /was not queued: .* answered 503/,
        "T37 sleep": /was not queued while it was paused after/,
      },
    },
    "aborts nothing by the second route": {
      fault: instead("POST /inference/v1/abort_requests", {}),
      says: { "T14 abort": /a stream goes on .* later|the request ends with length/ },
    },
    "changes its label by a load, also by one that fails": {
      fault: labelsEarly,
      says: {
        "T20/T21 switch": /the label became early by a load/,
        "T22 failed load": /the label became early by a load/,
      },
    },
    "keeps its cache over a pause that is to clear it": {
      fault: inCalls(
        "POST /pause",
        (call) => (call.query = call.query.replace("clear_cache=true", "clear_cache=false")),
      ),
      says: { "T23 prefix cache": /after a pause with clear_cache=true \d+ tokens were cached/ },
    },
    "gives all tokens of an answer the last label": {
      fault: lastLabelForAll,
      says: { "T25 spans": /weight_versions are \[\{"version":"whet-check-new","start":0/ },
    },
  },
  {
    "sends no usage in streams": { fault: noStreamUsage, says: { "T02 stream": /brings no usage/ } },
    "scores a prompt at another temperature": {
      fault: otherScores,
      says: { "T04 scores": /was sampled at .* and is scored at/ },
    },
    "gives raw log-probabilities": {
      fault: rawLogprobs,
      says: { "T05 log-probabilities": /they are raw, not processed/ },
    },
    "drops ignore_eos": {
      fault: inCalls(GENERATE, (call) => {
        if (samplingOf(call)["temperature"] === 2) delete samplingOf(call)["ignore_eos"];
      }),
      says: { "T06 stops": /ignore_eos: an answer ended all the same/ },
    },
    "serves its model under any name": {
      fault: inCalls(GENERATE, ({ body }) => delete body?.model),
      says: { "T08 errors": /an unknown model: answers 200, not 404/ },
    },
    "sends a label of its own": { fault: ownLabel, says: { "T36 label header": /is other where the label is/ } },
    "refuses a second pause": { fault: refusesSecondPause, says: { "T12 twice": /POST \/pause.* answered 500/ } },
    "aborts everything when one is aborted": {
      fault: inCalls("POST /abort_requests", (call) => (call.body = {})),
      says: { "T14 abort": /an abort of one ended another: abort/ },
    },
    "resumes after a load that failed": {
      fault: resumesAfterFailure,
      says: { "T22 failed load": /a load that failed resumed the engine/ },
    },
    "keeps its cache while it sleeps": {
      fault: inCalls("POST /sleep", (call) => (call.query = "?level=0")),
      says: { "T37 sleep": /tokens of a prompt from before were cached after it slept/ },
    },
    "reads across salts": {
      fault: inCalls(GENERATE, ({ body }) => {
        if (body?.cache_salt?.startsWith("whet") === true) delete body.cache_salt;
      }),
      says: { "T24 cache_salt": /tokens were read from the cache of another cache_salt/ },
    },
  },
  {
    "drops the seed": {
      fault: inCalls(GENERATE, (call) => delete samplingOf(call)["seed"]),
      says: { "T07 seeds": /seed 42 gave/ },
    },
    "loses a character of the text": {
      fault: inAnswers("POST /detokenize", (body) => (body["prompt"] = String(body["prompt"]).slice(1))),
      says: { tokenize: /comes back as "?ello/ },
    },
    "never says that it is paused": {
      fault: instead("GET /is_paused", { is_paused: false }),
      says: { "T13 is_paused": /says false, false, false/, "T37 sleep": /cannot be paused once it is awake/ },
    },
    "goes on for a while after a pause that keeps answers": {
      fault: pausesLate(),
      says: {
        "pause keep": /\d+ tokens were sampled while it was paused/,
        "T25 spans": /\d+ tokens were sampled while it was paused/,
      },
    },
    "does not hear that clients leave": {
      fault: { isDeaf: true },
      says: { "T15 clients leave": /of the answers that nobody waited for were sampled|is not 0 within/ },
    },
    "says that it loads, and does not": {
      fault: instead(LOAD, { results: [null] }),
      says: {
        "T20/T21 switch": /with --other-model loaded it answers as before/,
        "T22 failed load": /a folder that is not there: it loads it/,
      },
    },
  },
];
