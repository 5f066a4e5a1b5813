// SPDX-License-Identifier: Apache-2.0
// What one replica hands to another: a session, whole. Calls are named by their places in `calls`, parents before their children.
import { z } from "zod";
import { CLIENT_SAMPLING } from "../completion/client-sampling.ts";

/** Changes with whatever below changes: replicas that speak of it differently hand nothing over. */
export const STATE_FORM = 1;

export const HANDOVER_PATH = "/handover";
/** A larger session is not handed over. */
export const MAX_STATE_BYTES = 64 * 1024 * 1024;

const count = z.number().int().min(0);
const ids = z.array(count);
/** A version of a policy; JSON has no integers of 64 bits. */
const version = z.string().regex(/^-?\d{1,19}$/);
const place = z.number().int().min(-1);
const spans = z.array(z.strictObject({ start: count, end: count, policyVersion: version }));
const message = z.looseObject({ role: z.string() });
const sampling = z.strictObject({
  temperature: z.number().optional(),
  topP: z.number().optional(),
  topK: z.number().optional(),
  minP: z.number().optional(),
  maxTokens: z.number().optional(),
  seed: z.number().optional(),
  logits: z.looseObject({}).optional(),
});

const call = z.strictObject({
  index: count,
  policy: z.string(),
  /** -1: none. */
  parent: place,
  echoes: place,
  /** With a parent: how many characters of its prompt this one begins with, and what comes after them. */
  sharedChars: count,
  promptText: z.string(),
  promptIds: ids,
  completionIds: ids,
  logprobs: z.array(z.number()),
  supports: z.array(ids),
  spans,
  finishReason: z.string(),
  sampling,
  alteredBy: z.array(z.string()),
  role: z.string().optional(),
  topic: z.strictObject({ tools: z.array(z.string()), system: z.string(), question: z.string() }).optional(),
  text: z.string(),
  position: count,
  message,
  forkReason: z.enum(["none", "no_prefix", "branch"]),
  startedAtMs: z.number(),
  durationMs: z.number(),
  resubmissions: count,
  cachedTokens: count,
  demonstrationMask: ids,
});

const answer = z.strictObject({
  content: z.string(),
  reasoning: z.string(),
  calls: z.array(z.strictObject({ id: z.string(), name: z.string(), arguments: z.string(), malformed: z.boolean() })),
});

const image = z.strictObject({ path: z.string(), mediaType: z.string(), data: z.string(), digest: z.string() });
/** A message of a client with its parts, which no JSON of the message itself has. */
const asked = z.strictObject({ message, parts: z.array(z.union([z.string(), image])).optional() });

/** An answer that a repeated request gets; its call has its ids. */
const kept = z.strictObject({
  key: z.string(),
  digest: z.string(),
  requestId: z.string(),
  createdMs: z.number(),
  answer,
  stopString: z.string().optional(),
  call: count,
  alternatives: z.array(z.array(z.strictObject({ tokenId: count, logprob: z.number() }))),
  engineId: z.string(),
  maxVersion: version,
});

export const SessionStateSchema = z.strictObject({
  form: z.literal(STATE_FORM),
  name: z.string().min(1),
  key: z.string().min(1).optional(),
  terms: z.strictObject({ sampling, policy: z.enum(CLIENT_SAMPLING) }).optional(),
  policies: z.array(z.string()),
  lastEngineId: z.string(),
  maxVersion: version,
  nextIndex: count,
  calls: z.array(call),
  tree: z.array(z.strictObject({ parent: place, key: z.string(), answers: z.array(count) })),
  earlier: z.array(
    z.strictObject({ id: z.string(), previous: z.string().optional(), messages: z.array(asked), answer }),
  ),
  kept: z.array(kept),
});

export type SessionState = z.output<typeof SessionStateSchema>;
export type CallState = SessionState["calls"][number];
export type KeptState = SessionState["kept"][number];
