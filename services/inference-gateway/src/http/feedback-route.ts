// SPDX-License-Identifier: Apache-2.0
import type { FastifyInstance, FastifyRequest, onRequestHookHandler } from "fastify";
import { ApiError, badField } from "../completion/api-error.ts";
import { parseFields } from "../dialects/read-fields.ts";
import { type HttpContext, openKeyed, parseJsonBody } from "./http-context.ts";

export const FEEDBACK_PATH = "/v1/feedback";
/** The controller looks every second. */
const STORED_WITHIN_MS = 15_000;
const MAX_REWARD = 1e6;
const MAX_COMMENT = 10_000;

/** What a client of a served policy says of an answer. @param onRequest  looks at each request before its body is read */
export function addFeedbackRoute(server: FastifyInstance, context: HttpContext, onRequest: onRequestHookHandler): void {
  server.post(FEEDBACK_PATH, { onRequest }, async (request) => {
    const { holder } = openKeyed(context, request);
    if (holder === undefined) throw notServed();
    const about = readFeedback(context, request);
    const end = holder.limits.begin(context.chat.now());
    try {
      await inTime(context.feedback.say(holder.serving.name, about, context.chat.now()));
    } finally {
      end();
    }
    return { id: about.id, stored: true };
  });
}

function readFeedback(context: HttpContext, request: FastifyRequest): { id: string; reward: number; comment?: string } {
  const { id, reward, comment } = parseFields(parseJsonBody(context, request));
  if (typeof id !== "string" || id === "") throw badField("id", "must be the id of an answer");
  if (typeof reward !== "number" || Math.abs(reward) > MAX_REWARD)
    throw badField("reward", `must be a number from ${-MAX_REWARD} to ${MAX_REWARD}`);
  if (comment === undefined || comment === null) return { id, reward };
  if (typeof comment !== "string" || comment.length > MAX_COMMENT)
    throw badField("comment", `must be a text of at most ${MAX_COMMENT} characters`);
  return { id, reward, comment };
}

async function inTime(stored: Promise<void>): Promise<void> {
  const late = Promise.withResolvers<never>();
  const timer = setTimeout(() => {
    late.reject(notStored());
  }, STORED_WITHIN_MS);
  try {
    await Promise.race([stored, late.promise]);
  } finally {
    clearTimeout(timer);
  }
}

function notServed(): ApiError {
  const message = "feedback is for served policies; an episode is scored by its environment";
  return new ApiError("PERMISSION_DENIED", "not_served", message, { status: 403 });
}

function notStored(): ApiError {
  const message = "it was not stored in time: no controller takes it; it is stored when one does";
  return new ApiError("UNAVAILABLE", "feedback_waits", message, { retryAfterS: 5 });
}
