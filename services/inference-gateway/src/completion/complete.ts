// SPDX-License-Identifier: Apache-2.0
// What a completion is, from messages to a recorded call. Dialects and HTTP are elsewhere.
import { unlessCancelled } from "./call-scope.ts";
import type { CallScope } from "./call-scope.ts";
import type { TemplateMessage } from "./message.ts";
import type { CompletionRequest, Tools } from "./request.ts";
import { placePrompt, planPrompt, promptOf } from "../sessions/continuation.ts";
import type { PromptCodec, PromptPlace, PromptPlan } from "../sessions/continuation.ts";
import { generate, noTokens } from "./generate.ts";
import type { GenerateDeps, Generation, OnTokens, Tokens } from "./generate.ts";
import { refuseTooLong } from "./prompt-bounds.ts";
import type { CallRecord, ForkReason, Session } from "../sessions/session.ts";
import { TextStream } from "./text-stream.ts";

/** Text and ids of one policy, both ways. */
export interface Codec extends PromptCodec {
  /** The conversation as text without a generation prompt. @throws ApiError 400 when the template refuses it. */
  renderClosed(messages: readonly TemplateMessage[], tools: Tools): string | Promise<string>;
  /** The text of ids, special tokens left out. */
  decode(ids: readonly number[]): string;
  /** The text of one token, special or not. */
  tokenText(id: number): string;
  /** Tokens that end an answer. */
  readonly eosIds: ReadonlySet<number>;
}

export interface CompletionDeps extends GenerateDeps {
  /** By policy; filled when an engine is unfenced with it. */
  readonly codecs: ReadonlyMap<string, Codec>;
  /** Milliseconds since the epoch. */
  readonly now: () => number;
  readonly onFork: (reason: Exclude<ForkReason, "none">) => void;
  readonly onTokens: (prompt: number, completion: number) => void;
}

export interface CompletionCall<Request extends CompletionRequest = CompletionRequest> {
  readonly request: Request;
  /** Absent: an anonymous single-use session, of which nothing is kept. */
  readonly session?: Session | undefined;
  readonly role: string;
  readonly requestId: string;
}

export interface Completion {
  readonly requestId: string;
  /** "c<n>", as in the session's tree. */
  readonly callId: string;
  readonly createdMs: number;
  readonly text: string;
  readonly promptIds: readonly number[];
  readonly generation: Generation;
}

/** Text and tokens of an answer that is still being made; together they are the whole answer. */
export type OnPiece = (text: string, tokens: Tokens) => void;

/** Answers a call and records it in its session. @throws ApiError; then nothing is recorded. */
export async function complete(
  deps: CompletionDeps,
  call: CompletionCall,
  scope: CallScope,
  onPiece?: OnPiece,
): Promise<Completion> {
  const { request, session } = call;
  const startedAtMs = deps.now();
  const codec = deps.codecs.get(request.model);
  if (codec === undefined) throw deps.fleet.unknownPolicy(request.model);
  const index = session?.takeIndex() ?? 0;
  const place = await placeOf(deps, call, codec, scope);
  const stream = onPiece && new TextStream((ids) => codec.decode(ids));
  const forward = stream && ((tokens: Tokens) => onPiece(stream.push(tokens.ids), tokens));
  const { plan, generation } = await generateFor(deps, call, { place, codec }, { scope, forward });
  const text = textOf(codec, generation, stream, onPiece);
  if (session) record(deps, session, call, { plan, generation, index, startedAtMs, text });
  deps.onTokens(plan.ids.length, generation.ids.length);
  const answer = { requestId: call.requestId, callId: `c${index}`, createdMs: startedAtMs };
  return { ...answer, text, promptIds: plan.ids, generation };
}

/** @throws ApiError 400 before anything is tokenised when the prompt cannot fit. */
async function placeOf(
  deps: CompletionDeps,
  { request, session }: CompletionCall,
  codec: Codec,
  scope: CallScope,
): Promise<PromptPlace> {
  const { model: policy, messages, tools, variables } = request;
  const rendered = codec.render(messages, tools, variables);
  const promptText = rendered instanceof Promise ? await unlessCancelled(rendered, scope) : rendered;
  refuseTooLong(promptText.length, deps.fleet.contextOf(policy));
  return placePrompt(session, { policy, messages, tools, variables }, promptText, codec.endOfTurn);
}

interface Placed {
  readonly place: PromptPlace;
  readonly codec: Codec;
}

/** While it runs, its session is not idle and its parent counts it as a child. */
async function generateFor(
  deps: CompletionDeps,
  call: CompletionCall,
  { place, codec }: Placed,
  { scope, forward }: { scope: CallScope; forward: OnTokens | undefined },
): Promise<{ plan: PromptPlan; generation: Generation }> {
  const { request, session } = call;
  if (session) session.running++;
  if (place.parent) place.parent.children++;
  try {
    const planned = planPrompt(place, codec);
    const plan = planned instanceof Promise ? await unlessCancelled(planned, scope) : planned;
    const what = { requestId: call.requestId, policy: request.model, promptIds: plan.ids, sampling: request.sampling };
    const where = { preferId: session?.lastEngineId ?? "", minVersion: session?.maxVersion ?? -1n };
    const wanted = { ...what, ...where, alternatives: request.logprobs ?? 0 };
    return { plan, generation: await generate(deps, wanted, scope, forward) };
  } catch (error) {
    if (place.parent) place.parent.children--;
    throw error;
  } finally {
    if (session) session.running--;
  }
}

/** What the client of a stream has seen is the answer's text: that is what it will send back. */
function textOf(
  codec: Codec,
  generation: Generation,
  stream: TextStream | undefined,
  onPiece: OnPiece | undefined,
): string {
  if (stream === undefined) return codec.decode(generation.ids);
  const rest = stream.end();
  if (rest !== "") onPiece?.(rest, noTokens());
  return stream.text;
}

interface Answered {
  readonly plan: PromptPlan;
  readonly generation: Generation;
  readonly index: number;
  readonly startedAtMs: number;
  readonly text: string;
}

function record(
  deps: CompletionDeps,
  session: Session,
  { request, role }: CompletionCall,
  { plan, generation, index, startedAtMs, text }: Answered,
): void {
  const nowMs = deps.now();
  const { ids: completionIds, logprobs, spans, finishReason, resubmissions, cachedTokens } = generation;
  // An answer that several engines made is known only where all of them told.
  const supports = generation.supports.length === completionIds.length ? generation.supports : [];
  const answer = { completionIds, logprobs, supports, spans, finishReason, text, resubmissions, cachedTokens };
  const when = { startedAtMs, durationMs: nowMs - startedAtMs };
  const common = { index, policy: request.model, sampling: request.sampling, role, children: 0, demonstrationMask: [] };
  const call: CallRecord = { ...common, ...promptOf(plan), ...answer, ...when };
  session.add(call, request.messages);
  session.policies.add(request.model);
  session.lastUsedMs = nowMs;
  session.lastEngineId = generation.engineId;
  if (generation.maxVersion > session.maxVersion) session.maxVersion = generation.maxVersion;
  if (plan.forkReason !== "none") deps.onFork(plan.forkReason);
}
