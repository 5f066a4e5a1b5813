// SPDX-License-Identifier: Apache-2.0
// What a completion is, from messages to a recorded call. Dialects and HTTP are elsewhere.
import { badField } from "./api-error.ts";
import { unlessCancelled } from "./call-scope.ts";
import type { CallScope } from "./call-scope.ts";
import { asChatMessages, firstImage, type Rendered, withoutImages } from "./images.ts";
import type { Answer, AnswerPart, AnswerReader, ReaderOptions } from "./answer.ts";
import { AnswerReading } from "./answer-reading.ts";
import { answerKey, answerMessage } from "./message.ts";
import type { TemplateMessage } from "./message.ts";
import { schemasOf } from "./request.ts";
import type { CompletionRequest, Tools } from "./request.ts";
import type { Caller } from "../fleet/fair-queue.ts";
import { placePrompt, planPrompt, promptOf } from "../sessions/continuation.ts";
import { placeRaw } from "../sessions/raw-prompt.ts";
import type { PromptCodec, PromptPlace, PromptPlan } from "../sessions/continuation.ts";
import type { PromptIds } from "../sessions/prompt-ids.ts";
import { generate } from "./generate.ts";
import type { GenerateDeps, Generation, Tokens, TokenSink } from "./generate.ts";
import { refuseTooLong } from "./prompt-bounds.ts";
import type { CallRecord, ForkReason } from "../sessions/call-record.ts";
import type { Session } from "../sessions/session.ts";
import { topicOf } from "../sessions/topic.ts";

/** Text and ids of one policy, both ways. */
export interface Codec extends PromptCodec {
  /** The conversation as text without a generation prompt. @throws ApiError 400 when the template refuses it. */
  renderClosed(messages: readonly TemplateMessage[], tools: Tools): string | Promise<string>;
  /** The text of ids, special tokens left out. */
  decode(ids: readonly number[]): string;
  /** The text of one token, special or not. */
  tokenText(id: number): string;
  /** Reads answers as the model writes them. */
  reader(options: ReaderOptions): AnswerReader;
  /** What a call of that tool, or of any, begins with; undefined: the model cannot be made to call. */
  forcedCall(tool: string | undefined): string | undefined;
}

export interface CompletionDeps extends GenerateDeps {
  /** By policy; filled when an engine is unfenced with it. */
  readonly codecs: ReadonlyMap<string, Codec>;
  /** Milliseconds since the epoch. */
  readonly now: () => number;
  readonly onFork: (reason: Exclude<ForkReason, "none">) => void;
  readonly onToolCall: (outcome: "good" | "malformed") => void;
  readonly onTokens: (prompt: number, completion: number) => void;
}

export interface CompletionCall<Request extends CompletionRequest = CompletionRequest> {
  readonly request: Request;
  /** Who answers; the client may know it by another name, `request.model`. */
  readonly policy: string;
  readonly caller: Caller;
  /** Absent: an anonymous single-use session, of which nothing is kept. */
  readonly session?: Session | undefined;
  /** As the client named it. */
  readonly role: string | undefined;
  readonly requestId: string;
  /** What makes its distribution another one than the job's, by the names of the fields. */
  readonly alteredBy: readonly string[];
}

export interface Completion {
  readonly requestId: string;
  /** "c<n>", as in the session's tree. */
  readonly callId: string;
  readonly createdMs: number;
  readonly answer: Answer;
  /** The string that ended it; undefined: none did. */
  readonly stopString: string | undefined;
  readonly promptIds: PromptIds;
  readonly generation: Generation;
}

/** Parts and tokens of an answer that is still being made; together they are the whole answer. */
export type OnPiece = (parts: readonly AnswerPart[], tokens: Tokens) => void;

/** Answers a call and records it in its session, which is not idle meanwhile. @throws ApiError; then nothing is recorded. */
export async function complete(
  deps: CompletionDeps,
  call: CompletionCall,
  scope: CallScope,
  onPiece?: OnPiece,
): Promise<Completion> {
  call.session?.begin();
  try {
    return await answerAndRecord(deps, call, scope, onPiece);
  } finally {
    call.session?.end();
  }
}

async function answerAndRecord(
  deps: CompletionDeps,
  call: CompletionCall,
  scope: CallScope,
  onPiece: OnPiece | undefined,
): Promise<Completion> {
  const { request, policy, session } = call;
  const startedAtMs = deps.now();
  const codec = deps.codecs.get(policy);
  if (codec === undefined) throw deps.fleet.unknownPolicy(policy);
  const index = session?.takeIndex() ?? 0;
  const seen = await renderedImages(deps, call, scope);
  const place = seen === undefined ? await placeOf(deps, call, codec, scope) : placeRendered(call, codec, seen);
  const forced = seen === undefined ? forcedCall(call, codec) : "";
  const reading = new AnswerReading(codec, readerOptions(call, place.promptText), {
    begun: forced,
    stops: request.stops ?? [],
    onPiece,
  });
  const { plan, generation } = await generateFor(deps, call, { place, codec, forced, seen }, { scope, sink: reading });
  const { text, answer } = reading.end(generation);
  if (session) record(deps, session, call, { plan, generation, index, startedAtMs, text, answer });
  deps.onTokens(plan.ids.length, generation.ids.length);
  for (const { malformed } of answer.calls) deps.onToolCall(malformed ? "malformed" : "good");
  const common = { requestId: call.requestId, callId: `c${index}`, createdMs: startedAtMs };
  return { ...common, answer, stopString: reading.stopString, promptIds: plan.ids, generation };
}

/** @throws ApiError 400 before anything is tokenised when the prompt cannot fit. */
async function placeOf(
  deps: CompletionDeps,
  { request, policy, session }: CompletionCall,
  codec: Codec,
  scope: CallScope,
): Promise<PromptPlace> {
  const { messages, tools, variables } = request;
  if (request.prompt !== undefined) return placeRaw(session, policy, request.prompt);
  const placed = placePrompt(session, { policy, messages, tools, variables }, codec);
  const place = await unlessCancelled(placed, scope);
  refuseTooLong(place.promptText.length, deps.fleet.contextOf(policy));
  return place;
}

/**
 * A conversation with pictures, as an engine that takes them renders it; undefined: it has none.
 * @throws ApiError 400 with the path of the first picture where the policy's engines take none
 */
async function renderedImages(
  deps: CompletionDeps,
  { request, policy, caller, session }: CompletionCall,
  scope: CallScope,
): Promise<Rendered | undefined> {
  const { messages, tools, toolChoice = "auto", variables } = request;
  if (firstImage(messages) === undefined) return undefined;
  if (!deps.fleet.takesImages(policy)) withoutImages(messages, "this engine takes no images");
  if (toolChoice !== "auto" && toolChoice !== "none")
    throw badField("tool_choice", "a call cannot be forced beside images; use auto or none");
  const want = { policy, preferId: session?.lastEngineId ?? "", minVersion: session?.maxVersion ?? -1n, caller };
  const acquired = deps.fleet.acquire(want, scope);
  const lease = acquired instanceof Promise ? await acquired : acquired;
  try {
    const asked = { messages: asChatMessages(messages), tools, chat_template_kwargs: variables };
    const rendered = deps.engines.render(lease, { ...asked, add_generation_prompt: true });
    return { ...(await unlessCancelled(rendered, scope)), engineId: lease.engine.id };
  } finally {
    deps.fleet.release(lease);
  }
}

/** It continues no call: what the engine makes of pictures is its own. The end of its prompt tells how the answer begins. */
function placeRendered({ request, session }: CompletionCall, codec: Codec, { ids }: Rendered): PromptPlace {
  const promptText = ids
    .slice(-TAIL_TOKENS)
    .map((id) => codec.tokenText(id))
    .join("");
  const forkReason = session !== undefined && session.calls.length > 0 ? "no_prefix" : "none";
  const position = request.messages.length;
  return { parent: undefined, echoes: undefined, forkReason, promptText, freshText: "", freshIds: ids, position };
}

const TAIL_TOKENS = 32;

interface Placed {
  readonly place: PromptPlace;
  readonly codec: Codec;
  /** What the answer begins with although nothing sampled it. It is part of the prompt: context, never trained (I4). */
  readonly forced: string;
  readonly seen: Rendered | undefined;
}

async function planOf(
  { place, codec, forced }: Pick<Placed, "place" | "codec" | "forced">,
  scope: CallScope,
): Promise<PromptPlan> {
  const whole = forced === "" ? place : { ...place, freshText: place.freshText + forced };
  const planned = planPrompt(whole, codec);
  return planned instanceof Promise ? await unlessCancelled(planned, scope) : planned;
}

/** How `tool_choice` is kept: the model goes on from the beginning of a call. @throws ApiError 400 where none can be begun. */
function forcedCall({ request: { toolChoice = "auto" } }: CompletionCall, codec: Codec): string {
  if (toolChoice === "auto" || toolChoice === "none") return "";
  const begun = codec.forcedCall(toolChoice === "required" ? undefined : toolChoice.name);
  if (begun !== undefined) return begun;
  throw badField("tool_choice", "this model's format of calls cannot be begun for it; use auto or none");
}

/** While it runs, its parent counts it as a child. */
async function generateFor(
  deps: CompletionDeps,
  call: CompletionCall,
  { place, codec, forced, seen }: Placed,
  { scope, sink }: { scope: CallScope; sink: TokenSink },
): Promise<{ plan: PromptPlan; generation: Generation }> {
  if (place.parent) place.parent.children++;
  try {
    const plan = await planOf({ place, codec, forced }, scope);
    const wanted = wantedOf(call, plan, seen);
    return { plan, generation: await generate(deps, wanted, scope, sink) };
  } catch (error) {
    if (place.parent) place.parent.children--;
    throw error;
  }
}

function wantedOf(
  { request, policy, caller, session, requestId }: CompletionCall,
  { ids }: PromptPlan,
  seen: Rendered | undefined,
) {
  const { sampling, logprobs: alternatives = 0 } = request;
  const preferId = seen?.engineId ?? session?.lastEngineId ?? "";
  const what = { requestId, policy, promptIds: ids, sampling, alternatives, features: seen?.features };
  return { ...what, preferId, minVersion: session?.maxVersion ?? -1n, caller };
}

function readerOptions({ request, requestId }: CompletionCall, promptText: string): ReaderOptions {
  const { tools, toolChoice, parallelCalls = true, prompt } = request;
  const wanted = toolChoice === "none" ? undefined : schemasOf(tools);
  return { tools: wanted, isRaw: prompt !== undefined, parallelCalls, promptText, requestId };
}

/** Its role, or what its role is found by. */
function whoseCall(
  { messages, tools }: CompletionRequest,
  named: string | undefined,
  parent: CallRecord | undefined,
): Pick<CallRecord, "role" | "topic"> {
  const role = named ?? parent?.role;
  return { role, topic: role === undefined && parent === undefined ? topicOf(messages, tools) : undefined };
}

interface Answered {
  readonly plan: PromptPlan;
  readonly generation: Generation;
  readonly index: number;
  readonly startedAtMs: number;
  readonly text: string;
  readonly answer: Answer;
}

function record(
  deps: CompletionDeps,
  session: Session,
  { request, policy, role, requestId, alteredBy }: CompletionCall,
  { plan, generation, index, startedAtMs, text, answer: said }: Answered,
): void {
  const nowMs = deps.now();
  const { ids: completionIds, logprobs, spans, finishReason, resubmissions, cachedTokens } = generation;
  // An answer that several engines made is known only where all of them told.
  const supports = generation.supports.length === completionIds.length ? generation.supports : [];
  const answer = { logprobs, supports, spans, finishReason, text, resubmissions, cachedTokens };
  const message = answerMessage(said, text);
  const when = { startedAtMs, durationMs: nowMs - startedAtMs };
  const common = {
    index,
    policy,
    sampling: request.sampling,
    // A trainer sees the ids without the pictures.
    alteredBy: firstImage(request.messages) === undefined ? alteredBy : [...alteredBy, "images"],
    ...whoseCall(request, role, plan.parent),
    children: 0,
    demonstrationMask: [],
  };
  const call: CallRecord = { ...common, message, ...promptOf(plan, completionIds), ...answer, ...when };
  session.add(call, request.messages, answerKey(said));
  if (request.remember) session.earlier.remember(requestId, { ...request.remember, answer: said });
  session.policies.add(policy);
  session.lastUsedMs = nowMs;
  session.lastEngineId = generation.engineId;
  if (generation.maxVersion > session.maxVersion) session.maxVersion = generation.maxVersion;
  if (plan.forkReason !== "none") deps.onFork(plan.forkReason);
}
