// SPDX-License-Identifier: Apache-2.0
import { ApiError } from "./api-error.ts";
import { changedBy } from "./logit-changes.ts";
import { type SamplingAsked, withBoundedSupport } from "./request.ts";

/** What holds where a client asks for other sampling than its session's: see ClientSampling in jobs.proto. */
export const CLIENT_SAMPLING = ["context", "override", "refuse"] as const;
export type ClientSampling = (typeof CLIENT_SAMPLING)[number];

/** What an episode's calls are sampled with. */
export interface SamplingTerms {
  readonly sampling: SamplingAsked;
  readonly policy: ClientSampling;
}

/** The sampling of one call. */
export interface AgreedSampling {
  readonly sampling: SamplingAsked;
  /** What makes its distribution another one than the job's, by the names of the fields. */
  readonly alteredBy: readonly string[];
  /** What the client asked for in vain. */
  readonly overridden: readonly string[];
}

const DRAWING = { temperature: "temperature", topP: "top_p", topK: "top_k", minP: "min_p" } as const;
const OFF = { temperature: 1, topP: 1, topK: 0, minP: 0 };
type Drawing = keyof typeof DRAWING;

/** Without terms the client decides. @throws ApiError 400 naming the field that the job does not allow. */
export function agreeOn(asked: SamplingAsked, terms: SamplingTerms | undefined): AgreedSampling {
  if (terms === undefined) return { sampling: asked, alteredBy: changedBy(asked.logits), overridden: [] };
  const job = withBoundedSupport(terms.sampling);
  const altered = [...differing(asked, job), ...changedBy(asked.logits)];
  const unlike = asked.seed === undefined ? altered : [...altered, "seed"];
  const maxTokens = Math.min(asked.maxTokens ?? Infinity, job.maxTokens ?? Infinity);
  const bounded = maxTokens === Infinity ? {} : { maxTokens };
  switch (terms.policy) {
    case "context":
      return { sampling: { ...job, ...given(asked), ...bounded }, alteredBy: altered, overridden: [] };
    case "override":
      return { sampling: { ...job, ...bounded }, alteredBy: [], overridden: unlike };
    case "refuse":
      if (unlike[0] !== undefined) throw notAllowed(unlike[0]);
      return { sampling: { ...job, ...bounded }, alteredBy: [], overridden: [] };
  }
}

/** Names of what the client asked for that is not as the job has it. */
function differing(asked: SamplingAsked, job: SamplingAsked): string[] {
  const keys = Object.keys(DRAWING) as Drawing[];
  const isOther = (key: Drawing): boolean => asked[key] !== undefined && asked[key] !== (job[key] ?? OFF[key]);
  return keys.filter(isOther).map((key) => DRAWING[key]);
}

function given(asked: SamplingAsked): SamplingAsked {
  return Object.fromEntries(Object.entries(asked).filter(([, value]) => value !== undefined));
}

function notAllowed(field: string): ApiError {
  const message = `${field}: the job fixes the sampling of its episodes (agent.clientSampling: refuse); leave the field out`;
  return new ApiError("UNSUPPORTED_SETTING", "sampling_is_fixed", message, { param: field });
}
