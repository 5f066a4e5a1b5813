// SPDX-License-Identifier: Apache-2.0
import { errors, type FrameLocator, type Locator, type Page } from "playwright-core";
import { ActionError, type ActionScene } from "./action.ts";

/** The attribute that holds an element's id. */
export const BID_ATTRIBUTE = "bid";
/** Letters of frames from the outside in (`a`, `bA`: a letter, then capitals), then a number; a frame itself has no number. */
const BID = /^((?:[a-z][A-Z]*)*)(\d*)$/u;

/**
 * Uses the element with an id: "12" is in the page itself, "a12" in its frame "a", "abB7" in the frame "abB" of the frame "a".
 * One that was there in the last look is used without another one, which would cost a tenth of a step.
 * @throws ActionError when it is not there
 */
export async function onElement(
  { tabs, wasThere }: Pick<ActionScene, "tabs" | "wasThere">,
  bid: string,
  use: (element: Locator) => Promise<unknown>,
): Promise<void> {
  if (!wasThere(bid)) await mustBeThere(tabs.active, bid);
  const element = locatorsOf(tabs.active, bid).at(-1) as Locator;
  try {
    await use(element);
  } catch (error) {
    // It went before it could be used.
    if (error instanceof errors.TimeoutError) await mustBeThere(tabs.active, bid);
    throw error;
  }
}

async function mustBeThere(page: Page, bid: string): Promise<void> {
  for (const element of locatorsOf(page, bid)) if ((await element.count()) === 0) throw notFound(bid);
}

/** Of the frames that an element is in, from the outside in, and its own. @throws ActionError for what is no id */
function locatorsOf(page: Page, bid: string): Locator[] {
  const [, letters, digits] = BID.exec(bid) ?? [];
  if (letters === undefined || bid === "") throw notFound(bid);
  let frame: Page | FrameLocator = page;
  const found: Locator[] = [];
  for (const framed of [...framesOf(letters, digits === ""), bid]) {
    const element: Locator = frame.locator(byBid(framed));
    found.push(element);
    frame = element.contentFrame();
  }
  return found;
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
