// SPDX-License-Identifier: Apache-2.0
import { ApiError } from "../completion/api-error.ts";
import type { Completion } from "../completion/complete.ts";
import { PARTS } from "../completion/message-parts.ts";
import type { TemplateMessage } from "../completion/message.ts";
import { ChainLink } from "../sessions/chain.ts";
import { PromptIds } from "../sessions/prompt-ids.ts";
import type { CallRecord } from "../sessions/call-record.ts";
import { Session } from "../sessions/session.ts";
import type { KeptAnswer } from "../sessions/shared-calls.ts";
import { type CallState, type KeptState, type SessionState, SessionStateSchema, STATE_FORM } from "./session-state.ts";

/** @throws ApiError 409 for the state of another release, 400 with the path of what does not fit */
export function readState(body: unknown): SessionState {
  const form = (body as { form?: unknown } | null)?.form;
  if (form !== STATE_FORM) throw otherForm(form);
  const read = SessionStateSchema.safeParse(body);
  if (read.success) return read.data;
  const { path = [], message = "is not a session's state" } = read.error.issues[0] ?? {};
  throw unfit(path.join("."), message);
}

/** The session as the other replica had it, and what repeated requests of it get. @throws ApiError 400 with the path of what does not fit */
export function importSession(state: SessionState, nowMs: number): { session: Session; kept: KeptAnswer[] } {
  const session = new Session(state.name, nowMs, state.nextIndex);
  session.key = state.key;
  session.terms = state.terms;
  session.lastEngineId = state.lastEngineId;
  session.maxVersion = BigInt(state.maxVersion);
  for (const policy of state.policies) session.policies.add(policy);
  for (const [place, call] of state.calls.entries()) session.calls.push(callRecord(call, place, session.calls));
  fillTree(session, state);
  for (const { id, previous, messages, answer } of state.earlier)
    session.earlier.remember(id, { previous, messages: messages.map(messageOf), answer });
  return { session, kept: state.kept.map((kept) => keptAnswer(kept, session.calls)) };
}

function callRecord(state: CallState, place: number, before: readonly CallRecord[]): CallRecord {
  const { sharedChars, promptText: rest, spans, promptIds, completionIds, ...call } = state;
  const refuse = (field: string, reason: string): ApiError => unfit(`calls.${place}.${field}`, reason);
  if (call.logprobs.length !== completionIds.length) throw refuse("logprobs", "must be one for each completion id");
  const parent = callAt(before, state.parent, () => refuse("parent", NO_CALL));
  const echoes = callAt(before, state.echoes, () => refuse("echoes", NO_CALL));
  const promptText = (parent?.link.promptText.slice(0, sharedChars) ?? "") + rest;
  const link = new ChainLink(parent?.link, { promptText, promptIds, completionIds });
  if (parent !== undefined) parent.children++;
  const versions = spans.map((span) => ({ ...span, policyVersion: BigInt(span.policyVersion) }));
  const record = { ...call, promptIds, completionIds, parent, echoes, link, spans: versions, children: 0 };
  return { role: undefined, topic: undefined, ...record };
}

const NO_CALL = "names no call before this one";

/** @param place  -1: none */
function callAt(calls: readonly CallRecord[], place: number, refusal: () => ApiError): CallRecord | undefined {
  const call = calls[place];
  if (call === undefined && place !== -1) throw refusal();
  return call;
}

function fillTree({ tree, calls }: Session, state: SessionState): void {
  const nodes = state.tree.map(({ parent, key, answers }, at) => {
    if (parent >= at) throw unfit(`tree.${at}.parent`, "names no node before this one");
    const answered = answers.map((place) => calls[place]).filter((call) => call !== undefined);
    if (answered.length !== answers.length) throw unfit(`tree.${at}.answers`, "name no calls");
    return { parent, key, answers: answered };
  });
  tree.fill(nodes);
}

function messageOf({ message, parts }: SessionState["earlier"][number]["messages"][number]): TemplateMessage {
  return parts === undefined ? message : { ...message, [PARTS]: parts };
}

function keptAnswer(state: KeptState, calls: readonly CallRecord[]): KeptAnswer {
  const { key, digest, call: place, requestId, createdMs, answer, stopString, ...made } = state;
  const call = calls[place];
  if (call === undefined) throw unfit("kept", "names no call");
  const { completionIds, logprobs, supports, spans, finishReason, resubmissions, cachedTokens } = call;
  const tokens = { ids: completionIds, logprobs, supports, alternatives: made.alternatives };
  const how = { spans, finishReason, resubmissions, cachedTokens, engineId: made.engineId };
  const generation = { ...tokens, ...how, maxVersion: BigInt(made.maxVersion) } as Completion["generation"];
  const promptIds = new PromptIds(call.parent?.link, call.promptIds);
  const completion = { requestId, callId: `c${call.index}`, createdMs, answer, stopString, promptIds, generation };
  return { key, digest, completion };
}

function unfit(path: string, reason: string): ApiError {
  return new ApiError("INVALID_ARGUMENT", "bad_state", `${path}: ${reason}`, { param: path });
}

function otherForm(form: unknown): ApiError {
  const message = `form: this replica takes sessions of form ${STATE_FORM}, not ${JSON.stringify(form) ?? "none"}: it is of another release`;
  return new ApiError("CONFLICT", "other_release", message, { param: "form", status: 409 });
}
