// SPDX-License-Identifier: Apache-2.0
// I4: an answered turn is never tokenised again. A new request that repeats an earlier call's conversation and answer
// gets that call's exact ids as its prefix, and only the text after the answer is tokenised.
import type { TemplateMessage } from "../completion/message.ts";
import type { Tools, TemplateVariables } from "../completion/request.ts";
import { idsThrough } from "./session.ts";
import type { CallRecord, ForkReason, Session } from "./session.ts";

/** Turns conversations into text and text into ids, as the policy's model folder says. */
export interface PromptCodec {
  /** What the template writes after an assistant's text, e.g. "<|im_end|>\n"; "" when it could not be found out. */
  readonly endOfTurn: string;
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
  readonly forkReason: ForkReason;
  readonly promptText: string;
  /** The part of `promptText` that no call has tokenised yet. */
  readonly freshText: string;
}

/** A place with the ids that belong there. */
export interface PromptPlan extends PromptPlace {
  /** What the engine gets. */
  readonly ids: readonly number[];
  /** The part of `ids` after the parent's prompt and completion; without a parent all of it. */
  readonly deltaIds: readonly number[];
}

/** Finds the longest exact continuation; without one the request is a new root. */
export function placePrompt(
  session: Session | undefined,
  { policy, messages }: Conversation,
  promptText: string,
  endOfTurn: string,
): PromptPlace {
  for (const parent of session?.candidates(messages) ?? []) {
    if (parent.policy !== policy) continue;
    const freshText = textAfter(parent, promptText, endOfTurn);
    if (freshText === undefined) continue;
    return { parent, forkReason: parent.children > 0 ? "branch" : "none", promptText, freshText };
  }
  const forkReason = session && session.calls.length > 0 ? "no_prefix" : "none";
  return { parent: undefined, forkReason, promptText, freshText: promptText };
}

/** Tokenises what is new at a place. A promise when that is long. */
export function planPrompt(place: PromptPlace, codec: PromptCodec): PromptPlan | Promise<PromptPlan> {
  const fresh = codec.encode(place.freshText);
  return fresh instanceof Promise ? fresh.then((ids) => planOf(place, ids)) : planOf(place, fresh);
}

function planOf(place: PromptPlace, fresh: readonly number[]): PromptPlan {
  const { parent } = place;
  if (parent === undefined) return { ...place, ids: fresh, deltaIds: fresh };
  const deltaIds = withoutSampledEnd(parent, fresh);
  return { ...place, ids: idsThrough(parent).concat(deltaIds), deltaIds };
}

/** What a call's record says of its prompt. */
export function promptOf({ parent, forkReason, promptText, deltaIds }: PromptPlan) {
  return { parent, forkReason, promptText, promptIds: deltaIds };
}

/**
 * The text after the parent's answer, or undefined when the template rewrote the history (e.g. stripped the thinking), so
 * that the prompt is no continuation of the ids that were sampled.
 */
function textAfter(parent: CallRecord, promptText: string, endOfTurn: string): string | undefined {
  if (!promptText.startsWith(parent.promptText)) return undefined;
  const { text } = parent;
  // Templates may trim an answer when they print it; the sampled ids stand for it all the same.
  for (const printed of [text, text.trimEnd(), text.trimStart(), text.trim()]) {
    if (!promptText.startsWith(printed, parent.promptText.length)) continue;
    const rest = promptText.slice(parent.promptText.length + printed.length);
    // Otherwise something stands between answer and end of turn that was never sampled.
    if (rest.startsWith(endOfTurn)) return rest;
  }
  return undefined;
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
