// SPDX-License-Identifier: Apache-2.0
import { PARTS } from "../completion/message-parts.ts";
import type { TemplateMessage } from "../completion/message.ts";
import type { TokenSpan } from "../completion/token-span.ts";
import type { KeptAnswer } from "../sessions/shared-calls.ts";
import type { CallRecord } from "../sessions/call-record.ts";
import type { Session } from "../sessions/session.ts";
import { type CallState, type KeptState, STATE_FORM } from "./session-state.ts";

/** The JSON of all that a session holds. It must be idle. @param kept  what repeated requests of it get */
export function exportSession(session: Session, kept: readonly KeptAnswer[]): string {
  const { name, key, terms, policies, lastEngineId, maxVersion, nextIndex, calls } = session;
  const places = new Map(calls.map((call, place) => [call, place]));
  const placeOf = (call: CallRecord | undefined): number => (call && places.get(call)) ?? -1;
  const tree = session.tree.list().map(({ answers, ...node }) => ({ ...node, answers: answers.map(placeOf) }));
  const earlier = [...session.earlier.all()].map(([id, { messages, ...said }]) => ({
    ...{ id, ...said, messages: messages.map(askedOf) },
  }));
  return JSON.stringify({
    ...{ form: STATE_FORM, name, key, terms, policies: [...policies], lastEngineId, nextIndex },
    maxVersion: String(maxVersion),
    calls: calls.map((call) => callState(call, placeOf)),
    ...{ tree, earlier, kept: kept.flatMap((one) => keptState(one, calls)) },
  });
}

function callState(record: CallRecord, placeOf: (call: CallRecord | undefined) => number): CallState {
  const { parent, echoes, link, spans, children: _, ...call } = record;
  const before = parent?.link.promptText ?? "";
  const sharedChars = link.promptText.startsWith(before) ? before.length : 0;
  const copied = call as Omit<CallState, "parent" | "echoes" | "sharedChars" | "promptText" | "spans">;
  return {
    ...{ ...copied, parent: placeOf(parent), echoes: placeOf(echoes), spans: spans.map(spanState) },
    ...{ sharedChars, promptText: link.promptText.slice(sharedChars) },
  };
}

function spanState({ start, end, policyVersion }: TokenSpan): CallState["spans"][number] {
  return { start, end, policyVersion: String(policyVersion) };
}

function askedOf(message: TemplateMessage): object {
  return { message, parts: message[PARTS] };
}

/** None of an answer whose call is not here. */
function keptState({ key, digest, completion }: KeptAnswer, calls: readonly CallRecord[]): KeptState[] {
  const { requestId, callId, createdMs, answer, stopString, generation } = completion;
  const call = calls.findIndex(({ index }) => `c${index}` === callId);
  if (call < 0) return [];
  const { alternatives, engineId, maxVersion } = generation;
  const said = answer as KeptState["answer"];
  const made = { alternatives, engineId, maxVersion: String(maxVersion) };
  return [{ key, digest, requestId, createdMs, answer: said, stopString, call, ...made }];
}
