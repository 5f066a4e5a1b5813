// SPDX-License-Identifier: Apache-2.0
// One answer, however many attempts it takes. An attempt ends early when its engine is paused for new weights, fails or
// is quarantined; the call then goes on elsewhere with prompt + tokens so far. The client sees one uninterrupted answer.
import { ApiError } from "./api-error.ts";
import type { CallScope } from "./call-scope.ts";
import type { Rendered } from "./images.ts";
import type { SamplingAsked } from "./request.ts";
import type { Caller } from "../fleet/fair-queue.ts";
import { type Lease, servedFor } from "../fleet/engine-entry.ts";
import type { Fleet, Want } from "../fleet/fleet.ts";
import type { PromptIds } from "../sessions/prompt-ids.ts";
import { appendSpan, foreignLabel } from "./token-span.ts";
import type { LabelSpan, TokenSpan } from "./token-span.ts";

/** Another token that could have been drawn. */
export interface Alternative {
  readonly tokenId: number;
  readonly logprob: number;
}

/** What one attempt is asked for. */
export interface AttemptRequest {
  readonly requestId: string;
  readonly tokenIds: PromptIds;
  readonly maxTokens: number;
  readonly sampling: SamplingAsked;
  readonly seed: number | undefined;
  /** Alternatives wanted for each token. */
  readonly alternatives: number;
  /** Of the prompt's pictures, as the engine itself told them; undefined: it has none. */
  readonly features?: unknown;
}

/** What an attempt brought; arrays have the same length. */
export interface Tokens {
  readonly ids: number[];
  readonly logprobs: number[];
  /** Empty unless alternatives were asked for. */
  readonly alternatives: Alternative[][];
  /** The ids that truncated sampling kept for each token, ascending. Empty unless the engine says so for every one. */
  readonly supports: number[][];
}

/** How an attempt ended. `failed` may be tried again, `rejected` may not. */
export type AttemptEnd =
  | { kind: "done"; tokens: Tokens; spans: LabelSpan[] | undefined; finishReason: string; cachedTokens: number }
  | { kind: "failed"; reason: string; message: string; quarantine: boolean; spans?: LabelSpan[] | undefined }
  | { kind: "rejected"; message: string };

export type OnTokens = (tokens: Tokens) => void;

/** Who reads the answer while it is made. */
export interface TokenSink {
  /** Whether anybody reads before the end; only then is the answer streamed. */
  readonly wanted: boolean;
  take(tokens: Tokens): void;
  /** After how many tokens the answer has ended, as the text of these says; undefined: it has not. */
  readonly enough: number | undefined;
}

/** The way to an engine. With `onTokens` the answer is streamed, and `done` repeats what was streamed. */
export interface EnginePort {
  /** Asks for the end of an attempt, which then is done with what there is. Nothing is heard where the engine cannot. */
  finish(lease: Lease, requestId: string): void;
  /** @throws ApiError where the engine cannot. @param request  as its chat API takes it */
  render(lease: Lease, request: object): Promise<Pick<Rendered, "ids" | "features">>;
  attempt(lease: Lease, request: AttemptRequest, scope: CallScope, onTokens?: OnTokens): Promise<AttemptEnd>;
}

export interface GenerateDeps {
  readonly fleet: Fleet;
  readonly engines: EnginePort;
  /** Resolves after `ms`, or as soon as the scope is cancelled. */
  readonly pause: (ms: number, scope: CallScope) => Promise<void>;
  /** The seed of attempt `index`: continuing with the same random numbers would repeat the draws of the first. */
  readonly attemptSeed: (seed: number, index: number) => number;
  readonly onResubmission: (reason: string) => void;
  readonly onLabelMismatch: () => void;
}

export interface GenerateCall {
  readonly requestId: string;
  readonly policy: string;
  readonly promptIds: PromptIds;
  readonly sampling: SamplingAsked;
  readonly alternatives: number;
  readonly features?: unknown;
  readonly preferId: string;
  readonly minVersion: bigint;
  readonly caller: Caller;
}

/** A whole answer. */
export interface Generation extends Tokens {
  readonly spans: TokenSpan[];
  finishReason: string;
  resubmissions: number;
  cachedTokens: number;
  engineId: string;
  /** Newest version that sampled a token of it; never decreases. */
  maxVersion: bigint;
}

/** Failed attempts of one call; interruptions by weight switches are bounded by the deadline alone. */
const MAX_FAILURES = 6;
const FIRST_PAUSE_MS = 25;

/** @throws ApiError when the engines cannot answer, or the scope's reason. */
export async function generate(
  deps: GenerateDeps,
  call: GenerateCall,
  scope: CallScope,
  sink?: TokenSink,
): Promise<Generation> {
  const answer = emptyGeneration(call);
  const run: Run = { deps, call, answer, scope, sink };
  for (let failures = 0; ;) {
    scope.waitsFor = "an engine that has room and takes calls";
    const acquired = deps.fleet.acquire(wantOf(call, answer), scope);
    const lease = acquired instanceof Promise ? await acquired : acquired;
    scope.waitsFor = `an answer of engine ${lease.engine.id}`;
    const problem = await runAttempt(run, lease);
    if (startsOver(call)) takeAllOrNothing(run, problem);
    if (sink?.enough !== undefined) return cutAfter(answer, sink.enough);
    if (problem === undefined) return answer;
    scope.throwIfCancelled();
    answer.resubmissions++;
    deps.onResubmission(problem.reason);
    if (answer.ids.length >= (call.sampling.maxTokens ?? Infinity)) return { ...answer, finishReason: "length" };
    if (problem.counts) await pauseAfter(run, ++failures, problem);
  }
}

/** @throws ApiError when it was one failure too many. */
async function pauseAfter({ deps, scope }: Run, failures: number, { message }: Problem): Promise<void> {
  if (failures >= MAX_FAILURES) throw gaveUp(failures, message);
  await deps.pause(FIRST_PAUSE_MS * 2 ** failures, scope);
  scope.throwIfCancelled();
}

/**
 * Penalties and forms look at the whole answer, and engines would not know the beginning of one that goes on elsewhere. So an
 * interrupted call with any of them begins anew, and nothing of it is sent before its end.
 */
function startsOver({ sampling }: GenerateCall): boolean {
  return sampling.logits !== undefined;
}

function takeAllOrNothing({ answer, sink }: Run, problem: Problem | undefined): void {
  if (problem === undefined) sink?.take(answer);
  else
    for (const list of [answer.ids, answer.logprobs, answer.alternatives, answer.supports, answer.spans])
      list.length = 0;
}

/** Why a call must be resubmitted. `counts`: it is a failure, not a weight switch. */
interface Problem {
  readonly reason: string;
  readonly message: string;
  readonly counts: boolean;
}

/** A call and what there is of its answer. */
interface Run {
  readonly deps: GenerateDeps;
  readonly call: GenerateCall;
  readonly answer: Generation;
  readonly scope: CallScope;
  readonly sink: TokenSink | undefined;
}

async function runAttempt(run: Run, lease: Lease): Promise<Problem | undefined> {
  const { deps, scope } = run;
  const streamed = noTokens();
  try {
    const request = attemptRequest(run, lease);
    const end = await deps.engines.attempt(lease, request, scope, forwardOf(run, lease, request, streamed));
    scope.throwIfCancelled();
    if (end.kind === "done") return takeAnswer(run, lease, end, streamed);
    // What a client has seen cannot be taken back. Where the engine has not said what sampled it, it is never trained (I5).
    keepStreamed(run, lease, streamed, end.kind === "failed" ? end.spans : undefined);
    if (end.kind === "rejected") throw new ApiError("INVALID_ARGUMENT", "engine_rejected", end.message);
    if (end.reason === "label_mismatch") deps.onLabelMismatch();
    if (end.quarantine) deps.fleet.quarantine(lease.engine, end.message);
    return { reason: end.reason, message: end.message, counts: end.reason !== "revoked" };
  } finally {
    deps.fleet.release(lease);
  }
}

/** What happens to tokens as they come; undefined: nobody waits for them. */
function forwardOf(
  { deps, call, sink }: Run,
  lease: Lease,
  { requestId }: AttemptRequest,
  streamed: Tokens,
): OnTokens | undefined {
  if (sink?.wanted !== true || startsOver(call)) return undefined;
  return (tokens) => {
    const wasEnough = sink.enough !== undefined;
    appendTokens(streamed, tokens);
    sink.take(tokens);
    // The engine is asked to end rather than cut off: the labels of what it sampled come with its last word (I5).
    if (!wasEnough && sink.enough !== undefined) deps.engines.finish(lease, requestId);
  };
}

/** The answer without what was sampled after its end. */
function cutAfter(answer: Generation, count: number): Generation {
  const { ids, logprobs, alternatives, supports, spans } = answer;
  for (const list of [ids, logprobs, alternatives, supports]) list.length = Math.min(list.length, count);
  const kept = spans.filter(({ start }) => start < count).map((span) => ({ ...span, end: Math.min(span.end, count) }));
  return { ...answer, spans: kept, finishReason: "stop" };
}

/** The tokens of a stream that broke: under their label where all of them have the expected one, else outside every span. */
function keepStreamed({ answer }: Run, lease: Lease, streamed: Tokens, spans: LabelSpan[] | undefined): void {
  const start = answer.ids.length;
  appendTokens(answer, streamed);
  if (streamed.ids.length === 0 || foreignLabel(spans, streamed.ids.length, lease.served.label) !== undefined) return;
  appendSpan(answer.spans, start, answer.ids.length, lease.served.version);
  answer.maxVersion = lease.served.version;
}

type Done = AttemptEnd & { kind: "done" };

function takeAnswer(run: Run, lease: Lease, end: Done, streamed: Tokens): Problem | undefined {
  const { answer } = run;
  const label = foreignLabel(end.spans, end.tokens.ids.length, lease.served.label);
  if (label !== undefined) return refuseLabel(run, lease, label, { end, streamed });
  const start = answer.ids.length;
  appendTokens(answer, end.tokens);
  appendSpan(answer.spans, start, answer.ids.length, lease.served.version);
  if (answer.ids.length > start) answer.maxVersion = lease.served.version;
  answer.engineId = lease.engine.id;
  if (answer.resubmissions === 0) answer.cachedTokens = end.cachedTokens;
  answer.finishReason = end.finishReason;
  if (end.finishReason !== "abort") return undefined;
  // An engine that aborts without being fenced, and without a token, would spin here; so it counts.
  const { engine, served } = lease;
  const serves = engine.state === "serving" && servedFor(engine, served.policy) === served;
  const idle = end.tokens.ids.length === 0 && serves;
  return { reason: "abort", message: `engine ${lease.engine.id} aborted the call`, counts: idle };
}

/** I7: an engine that reports another label than the fence's has other weights than were verified. */
function refuseLabel(
  { deps, answer }: Run,
  lease: Lease,
  label: string,
  { end, streamed }: { end: Done; streamed: Tokens },
): Problem | undefined {
  const said = label === "" ? "no label for some tokens" : `the label "${label}"`;
  const message = `engine ${lease.engine.id} answered with ${said}, expected "${lease.served.label}"`;
  deps.onLabelMismatch();
  deps.fleet.quarantine(lease.engine, message);
  appendTokens(answer, streamed);
  answer.finishReason = end.finishReason;
  if (streamed.ids.length > 0 && end.finishReason !== "abort") return undefined;
  return { reason: "label_mismatch", message, counts: false };
}

function attemptRequest({ deps, call, answer }: Run, lease: Lease): AttemptRequest {
  const kept = answer.ids.length;
  const { seed, maxTokens } = call.sampling;
  const room = lease.engine.maxModelLen - call.promptIds.length;
  if (lease.engine.maxModelLen > 0 && room <= 0) throw tooLong(call.promptIds.length, lease.engine.maxModelLen);
  const budget = maxTokens ?? (lease.engine.maxModelLen > 0 ? room : DEFAULT_MAX_TOKENS);
  return {
    requestId: answer.resubmissions === 0 ? call.requestId : `${call.requestId}-${answer.resubmissions}`,
    tokenIds: call.promptIds.with(answer.ids),
    maxTokens: Math.max(1, budget - kept),
    sampling: call.sampling,
    seed: seed !== undefined && kept > 0 ? deps.attemptSeed(seed, answer.resubmissions) : seed,
    alternatives: call.alternatives,
    features: call.features,
  };
}

/** For an engine that did not say how long its context is. */
const DEFAULT_MAX_TOKENS = 1024;

function wantOf(call: GenerateCall, answer: Generation): Want {
  const minVersion = answer.maxVersion > call.minVersion ? answer.maxVersion : call.minVersion;
  return { policy: call.policy, minVersion, preferId: call.preferId, caller: call.caller };
}

function emptyGeneration(call: GenerateCall): Generation {
  const none = { finishReason: "", resubmissions: 0, cachedTokens: 0, engineId: "", maxVersion: call.minVersion };
  return { ...noTokens(), spans: [], ...none };
}

export function noTokens(): Tokens {
  return { ids: [], logprobs: [], alternatives: [], supports: [] };
}

export function appendTokens(target: Tokens, source: Tokens): void {
  for (const id of source.ids) target.ids.push(id);
  for (const logprob of source.logprobs) target.logprobs.push(logprob);
  for (const alternatives of source.alternatives) target.alternatives.push(alternatives);
  for (const support of source.supports) target.supports.push(support);
}

function gaveUp(failures: number, last: string): ApiError {
  return new ApiError("ENGINE_FAILED", "engines_failed", `${failures} attempts failed; the last: ${last}`, {
    retryAfterS: 1,
  });
}

function tooLong(tokens: number, limit: number): ApiError {
  const message = `the prompt has ${tokens} tokens, the model's context is ${limit}`;
  return new ApiError("INVALID_ARGUMENT", "context_length_exceeded", message, { param: "messages" });
}
