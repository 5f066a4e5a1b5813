// SPDX-License-Identifier: Apache-2.0
// I4: an answered turn is never tokenised again. A new request that repeats an earlier call's conversation and answer
// gets that call's exact ids as its prefix, and only the text after the answer is tokenised. Which answer a message
// repeats is told by the message (messageKey); that the prompt goes on from it, by the template's own text.
import { ApiError } from "../completion/api-error.ts";
import type { TemplateMessage } from "../completion/message.ts";
import type { Tools, TemplateVariables } from "../completion/request.ts";
import { ChainLink } from "./chain.ts";
import { PromptIds } from "./prompt-ids.ts";
import type { CallRecord, ForkReason } from "./call-record.ts";
import type { Session } from "./session.ts";

/** Turns conversations into text and text into ids, as the policy's model folder says. */
export interface PromptCodec {
  /** What the template writes after an assistant's text, e.g. "<|im_end|>\n"; "" when it could not be found out. */
  readonly endOfTurn: string;
  /** What ends a turn in a text. */
  readonly endMarks: readonly string[];
  /** Tokens that end an answer. */
  readonly eosIds: ReadonlySet<number>;
  /** The conversation as text, with the generation prompt. @throws ApiError 400 when the template refuses it. */
  render(messages: readonly TemplateMessage[], tools?: Tools, variables?: TemplateVariables): string | Promise<string>;
  /** Ids of a text, special tokens in it included, none added. A promise when the text is long: see OffloadingCodec. */
  encode(text: string): readonly number[] | Promise<readonly number[]>;
}

/** What a policy is asked to continue. */
export interface Conversation {
  readonly policy: string;
  readonly messages: readonly TemplateMessage[];
  readonly tools?: Tools;
  /** For the template. */
  readonly variables?: TemplateVariables | undefined;
}

/** Where a request stands in its session's tree. */
export interface PromptPlace {
  readonly parent: CallRecord | undefined;
  /** See CallRecord. */
  readonly echoes: CallRecord | undefined;
  readonly forkReason: ForkReason;
  readonly promptText: string;
  /** The part of `promptText` that no call has tokenised yet. */
  readonly freshText: string;
  /** The same as ids, where it came so; nothing is tokenised then. */
  readonly freshIds?: readonly number[] | undefined;
  /** How many messages it was asked with. */
  readonly position: number;
}

/** A place with the ids that belong there. */
export interface PromptPlan extends PromptPlace {
  /** What the engine gets. */
  readonly ids: PromptIds;
  /** The part of `ids` after the parent's prompt and completion; without a parent all of it. */
  readonly deltaIds: readonly number[];
}

/** Finds the longest exact continuation; without one the request is a new root. */
export async function placePrompt(
  session: Session | undefined,
  conversation: Conversation,
  codec: PromptCodec,
): Promise<PromptPlace> {
  const { policy, messages, tools, variables } = conversation;
  const position = messages.length;
  const asked = codec.render(messages, tools, variables);
  const askedText = asked instanceof Promise ? await asked : asked;
  const earlier = (session?.tree.candidates(messages, MAX_PARENTS) ?? []).filter((call) => call.policy === policy);
  const echoes = earlier[0];
  for (const parent of earlier) {
    const promptText = await textWithAnswers(parent, conversation, askedText, codec);
    const freshText = promptText === undefined ? undefined : textAfter(parent, promptText, codec);
    if (promptText === undefined || freshText === undefined) continue;
    return { parent, echoes, forkReason: parent.children > 0 ? "branch" : "none", promptText, freshText, position };
  }
  const forkReason = session && session.calls.length > 0 ? "no_prefix" : "none";
  return { parent: undefined, echoes, forkReason, promptText: askedText, freshText: askedText, position };
}

/** Where a template rewrites history none of them fits, and each may cost a rendering. */
const MAX_PARENTS = 8;

/**
 * The conversation as text, with the answers of the chain in place of their echoes: what clients leave out of an echo,
 * thoughts above all, was sampled all the same, and the template decides whether it stays.
 */
async function textWithAnswers(
  parent: CallRecord,
  { messages, tools, variables }: Conversation,
  askedText: string,
  codec: PromptCodec,
): Promise<string | undefined> {
  const own = [...messages];
  let isSame = true;
  for (let link: CallRecord | undefined = parent; link !== undefined; link = link.parent) {
    isSame &&= isPrintedAs(link.message, messages[link.position]);
    own[link.position] = link.message;
  }
  if (isSame) return askedText;
  try {
    return await codec.render(own, tools, variables);
  } catch (error) {
    // The template has no form for such an answer; the client's echo may have one.
    if (error instanceof ApiError) return askedText;
    throw error;
  }
}

/** An answer of words alone is printed as its echo is, up to space: see textAfter. */
function isPrintedAs(own: TemplateMessage, echo: TemplateMessage | undefined): boolean {
  return (
    own === echo ||
    (own["tool_calls"] === undefined && own["reasoning_content"] === undefined && echo?.["tool_calls"] === undefined)
  );
}

/** Tokenises what is new at a place. A promise when that is long. */
export function planPrompt(place: PromptPlace, codec: PromptCodec): PromptPlan | Promise<PromptPlan> {
  const fresh = place.freshIds ?? codec.encode(place.freshText);
  return fresh instanceof Promise ? fresh.then((ids) => planOf(place, ids)) : planOf(place, fresh);
}

function planOf(place: PromptPlace, fresh: readonly number[]): PromptPlan {
  const { parent } = place;
  const deltaIds = place.freshIds ?? (parent === undefined ? fresh : withoutSampledEnd(parent, fresh));
  return { ...place, ids: new PromptIds(parent?.link, deltaIds), deltaIds };
}

/** What a call's record says of its prompt, and of what came after it. */
export function promptOf(
  { parent, echoes, forkReason, promptText, position, deltaIds }: PromptPlan,
  completionIds: readonly number[],
) {
  const link = new ChainLink(parent?.link, { promptText, promptIds: deltaIds, completionIds });
  return { parent, echoes, forkReason, link, position, promptIds: deltaIds, completionIds };
}

/**
 * The text after the parent's answer, or undefined when the template rewrote the history (e.g. stripped the thinking), so
 * that the prompt is no continuation of the ids that were sampled.
 */
function textAfter(parent: CallRecord, promptText: string, codec: PromptCodec): string | undefined {
  const before = parent.link.promptText;
  if (!standsAt(promptText, 0, before)) return undefined;
  const { text } = parent;
  // Templates may trim an answer when they print it; the sampled ids stand for it all the same.
  for (const printed of [text, text.trimEnd(), text.trimStart(), text.trim()]) {
    if (!standsAt(promptText, before.length, printed)) continue;
    const rest = promptText.slice(before.length + printed.length);
    // Otherwise something stands between answer and end of turn that was never sampled.
    if (rest.startsWith(codec.endOfTurn)) return rest;
  }
  return textAfterReprint(parent, promptText, codec);
}

/** As `startsWith`, which looks at one character after the other. */
function standsAt(text: string, at: number, part: string): boolean {
  return text.slice(at, at + part.length) === part;
}

/**
 * As textAfter, where the template writes the answer in words of its own: calls with other spaces, thoughts with other line
 * breaks. Its turn ends at the mark before which all that was sampled has been said, in its order.
 */
function textAfterReprint(parent: CallRecord, promptText: string, codec: PromptCodec): string | undefined {
  const said = saidIn(parent.message);
  if (said === undefined) return undefined;
  const start = parent.link.promptText.length;
  for (
    let end = firstMark(codec.endMarks, promptText, start);
    end;
    end = firstMark(codec.endMarks, promptText, end.after)
  ) {
    const after = hasSampledEnd(parent, codec) ? end.after : end.at;
    if (saysAll(promptText.slice(start, end.at), said)) return promptText.slice(after);
    // Harmony ends its thoughts, too, with what ends a turn; any other mark is the last of this turn.
    if (end.mark !== codec.endOfTurn) return undefined;
  }
  return undefined;
}

/** What a template must print for an answer that has more than words; undefined: it has not. */
function saidIn({ content, reasoning_content: thoughts, tool_calls: calls }: TemplateMessage): string[] | undefined {
  if (thoughts === undefined && calls === undefined) return undefined;
  const names = Array.isArray(calls) ? calls.map((call: { function: { name: string } }) => call.function.name) : [];
  return [typeof thoughts === "string" ? thoughts : "", content ?? "", ...names].map((text) => text.trim());
}

function saysAll(printed: string, said: readonly string[]): boolean {
  let from = 0;
  return said.every((text) => {
    const at = printed.indexOf(text, from);
    from = at + text.length;
    return at >= 0;
  });
}

function firstMark(marks: readonly string[], text: string, from: number) {
  const found = marks.map((mark) => ({ mark, at: text.indexOf(mark, from) })).filter(({ at }) => at >= 0);
  const first = found.toSorted((a, b) => a.at - b.at)[0];
  return first && { ...first, after: first.at + first.mark.length };
}

/** The model ended its turn by itself; which of its end tokens it drew, only the ids know. */
function hasSampledEnd({ finishReason, completionIds }: CallRecord, { eosIds }: PromptCodec): boolean {
  return finishReason !== "length" && eosIds.has(completionIds.at(-1) ?? -1);
}

/**
 * The end-of-turn token is in the completion when the model sampled it; the template prints it again. An answer that
 * was cut ("length") did not sample it: then it belongs to the prompt.
 */
export function withoutSampledEnd(
  parent: Pick<CallRecord, "finishReason" | "completionIds">,
  rest: readonly number[],
): readonly number[] {
  if (parent.finishReason === "length") return rest;
  const sampled = parent.completionIds;
  for (let size = Math.min(sampled.length, rest.length, MAX_END_TOKENS); size > 0; size--) {
    if (endsWith(sampled, rest, size)) return rest.slice(size);
  }
  return rest;
}

/** No template writes a longer end of turn. */
const MAX_END_TOKENS = 8;

function endsWith(sampled: readonly number[], rest: readonly number[], size: number): boolean {
  for (let i = 0; i < size; i++) {
    if (sampled[sampled.length - size + i] !== rest[i]) return false;
  }
  return true;
}
