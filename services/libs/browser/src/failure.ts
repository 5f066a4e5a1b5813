// SPDX-License-Identifier: Apache-2.0
import { SandboxError } from "@whetstone/sandbox";
import { EpisodeError } from "@whetstone/sdk";

// I6: whose fault it is. What an action got wrong (no such element, a covered button, an address that may not be reached) is text
// that the agent reads. What browser or page got wrong is ENVIRONMENT, what the sandbox got wrong INFRASTRUCTURE: neither says
// anything about the policy, so the episode is played again and never scored.

const MAX_CHARACTERS = 600;

/** @param during  what was being done: "to open a page" */
export function browserFailed(during: string, error: unknown): EpisodeError {
  if (error instanceof EpisodeError) return error;
  if (error instanceof SandboxError) {
    const message = `browser's sandbox, ${during}: ${error.message}`;
    return new EpisodeError("INFRASTRUCTURE", message, { code: error.code, cause: error });
  }
  return new EpisodeError("ENVIRONMENT", `browser, ${during}: ${firstLines(error)}`, { cause: error });
}

/** What Playwright waited for in vain: of its log the line that an agent can act on. */
const IN_VAIN =
  /^\s*- (.*(?:intercepts pointer events|is not (?:visible|enabled|stable|editable)|outside of the viewport).*)$/mu;

/** Playwright tells in colours, and how often it tried. */
export function firstLines(error: unknown): string {
  const said = error instanceof Error ? error.message : String(error);
  const [told = "", log = ""] = said.replaceAll(COLOURS, "").split("\nCall log:");
  const [, why] = IN_VAIN.exec(log) ?? [];
  return [told.trim(), ...(why === undefined ? [] : [why])].join(" ").slice(0, MAX_CHARACTERS);
}

const COLOURS = /\u001b\[\d+(;\d+)*m/gu;
