// SPDX-License-Identifier: Apache-2.0
import type { TemplateMessage } from "../completion/message.ts";
import type { SamplingAsked } from "../completion/request.ts";
import type { TokenSpan } from "../completion/token-span.ts";
import type { ChainLink } from "./chain.ts";
import type { Topic } from "./topic.ts";

export type ForkReason = "none" | "no_prefix" | "branch";

/** One answered model call. Its ids are those that the engine saw and produced (I4). */
export interface CallRecord {
  /** Order of arrival in the session, from 0. */
  readonly index: number;
  readonly policy: string;
  readonly parent: CallRecord | undefined;
  /** Its prompt, with which the next turn must begin, and all ids through its answer. */
  readonly link: ChainLink;
  /** With a parent: the ids after its prompt and completion. Without: the whole prompt. */
  readonly promptIds: readonly number[];
  readonly completionIds: readonly number[];
  readonly logprobs: readonly number[];
  /** The ids that truncated sampling kept for each token. Empty: nothing was truncated, or the engine does not tell. */
  readonly supports: readonly (readonly number[])[];
  readonly spans: readonly TokenSpan[];
  readonly finishReason: string;
  readonly sampling: SamplingAsked;
  /** See ModelCall. */
  readonly alteredBy: readonly string[];
  /** As the client named it; undefined: see rolesOf. */
  readonly role: string | undefined;
  /** Of a call without role and parent. */
  readonly topic: Topic | undefined;
  /** The latest call whose answer its messages repeat: its parent, or one whose ids the template did not let it go on from. */
  readonly echoes: CallRecord | undefined;
  /** What the model wrote, with its marks of thoughts and calls. */
  readonly text: string;
  /** How many messages it was asked with: its answer stands at this place of a conversation that goes on from it. */
  readonly position: number;
  /** The answer as the template's message, thoughts included: clients seldom echo those. */
  readonly message: TemplateMessage;
  readonly forkReason: ForkReason;
  readonly startedAtMs: number;
  readonly durationMs: number;
  readonly resubmissions: number;
  readonly cachedTokens: number;
  /** Demonstrations only, see ModelCall. Empty: sampled. */
  readonly demonstrationMask: readonly number[];
  /** Calls that continue this one, running ones included. */
  children: number;
}
