// SPDX-License-Identifier: Apache-2.0
// Prompts that come as they are, without a chat template: they continue the call that is their longest exact prefix (I4).
import type { RawPrompt } from "../completion/request.ts";
import type { PromptPlace } from "./continuation.ts";
import type { CallRecord, ForkReason } from "./call-record.ts";
import type { Session } from "./session.ts";

export function placeRaw(session: Session | undefined, policy: string, prompt: RawPrompt): PromptPlace {
  const own = (session?.calls ?? []).filter((call) => call.policy === policy && call.position === 0);
  const fits = own.map((call) => ({ call, size: prefixSize(call, prompt) })).filter(({ size }) => size > 0);
  const best = fits.toSorted((a, b) => b.size - a.size || b.call.index - a.call.index)[0];
  const place = { parent: best?.call, echoes: best?.call, forkReason: forkReasonOf(best?.call, session), position: 0 };
  const rest = prompt.slice(best?.size ?? 0);
  if (typeof prompt === "string") return { ...place, promptText: prompt, freshText: rest as string };
  return { ...place, promptText: "", freshText: "", freshIds: rest as readonly number[] };
}

function forkReasonOf(parent: CallRecord | undefined, session: Session | undefined): ForkReason {
  if (parent !== undefined) return parent.children > 0 ? "branch" : "none";
  return session !== undefined && session.calls.length > 0 ? "no_prefix" : "none";
}

function prefixSize(call: CallRecord, prompt: RawPrompt): number {
  return typeof prompt === "string" ? textSize(call, prompt) : idsSize(call, prompt);
}

/** How much of the text the call covers; 0: it is no prefix. Where the model ended its answer itself, more was sampled than the text says. */
function textSize({ link: { promptText }, text, finishReason }: CallRecord, prompt: string): number {
  const whole = promptText + text;
  return finishReason === "length" && promptText !== "" && prompt.startsWith(whole) ? whole.length : 0;
}

function idsSize({ link }: CallRecord, prompt: readonly number[]): number {
  return link.length <= prompt.length && link.ids().every((id, i) => id === prompt[i]) ? link.length : 0;
}
