// SPDX-License-Identifier: Apache-2.0
import type { FrameLocator, Locator, Page } from "playwright-core";
import { ActionError } from "./action.ts";

/** The attribute that holds an element's id. */
export const BID_ATTRIBUTE = "bid";
/** Letters of frames from the outside in (`a`, `bA`: a letter, then capitals), then a number; a frame itself has no number. */
const BID = /^((?:[a-z][A-Z]*)*)(\d*)$/u;

/**
 * The element with an id: "12" is in the page itself, "a12" in its frame "a", "abB7" in the frame "abB" of the frame "a".
 * @throws ActionError when it is not there
 */
export async function elementOf(page: Page, bid: string): Promise<Locator> {
  const [, letters, digits] = BID.exec(bid) ?? [];
  if (letters === undefined || bid === "") throw notFound(bid);
  let frame: Page | FrameLocator = page;
  for (const framed of framesOf(letters, digits === "")) {
    const element: Locator = frame.locator(byBid(framed));
    if ((await element.count()) === 0) throw notFound(bid);
    frame = element.contentFrame();
  }
  const element = frame.locator(byBid(bid));
  if ((await element.count()) === 0) throw notFound(bid);
  return element;
}

/** "abB" → "a", "abB"; of a frame itself those that it is in. */
function framesOf(letters: string, isFrame: boolean): string[] {
  const parts = letters.match(/[a-z][A-Z]*/gu) ?? [];
  const frames = parts.map((_, i) => parts.slice(0, i + 1).join(""));
  return isFrame ? frames.slice(0, -1) : frames;
}

function byBid(bid: string): string {
  return `[${BID_ATTRIBUTE}="${bid}"]`;
}

function notFound(bid: string): ActionError {
  return new ActionError("ValueError", `Could not find element with bid "${bid.slice(0, 100)}"`);
}
