// SPDX-License-Identifier: Apache-2.0
import { MAX_IMAGE_BYTES } from "@whetstone/core";
import { EpisodeError, type ImagePart } from "@whetstone/sdk";
import type { CDPSession, Frame } from "playwright-core";
import { type Mark, MARKS_SCRIPT, NO_OVERLAY_SCRIPT, overlayScript } from "./mark-scripts.ts";
import { BLANK, markedChildren, onActivePage } from "./observe.ts";
import type { Tabs } from "./tabs.ts";

export interface PictureOptions {
  /** The ids of what can be used are drawn over it, each in a box. */
  readonly marks: boolean;
  /** Pixels of the picture for one of the page. */
  readonly scale: number;
}

/** The window of the active page as PNG. Undefined: a new tab, of which nothing is asked. Marks need ids: the page was read before. */
export async function pictureOf(tabs: Tabs, options: PictureOptions): Promise<ImagePart | undefined> {
  if (tabs.active.url() === BLANK) return undefined;
  const data = await onActivePage(tabs, async (page) => {
    const session = await tabs.session(page);
    if (!options.marks) return await capture(session, options.scale);
    await page.evaluate(overlayScript(await marksOf(page.mainFrame())));
    try {
      return await capture(session, options.scale);
    } finally {
      await page.evaluate(NO_OVERLAY_SCRIPT);
    }
  });
  if (data.length > MAX_IMAGE_BYTES)
    throw new EpisodeError(
      "TASK",
      `screenshot: the picture of the page has ${data.length} bytes, and ${MAX_IMAGE_BYTES} at most are taken: make the viewport smaller`,
    );
  return { mediaType: "image/png", data };
}

async function capture(session: CDPSession, scale: number): Promise<Buffer> {
  const { cssVisualViewport: seen } = await session.send("Page.getLayoutMetrics");
  const clip = { x: seen.pageX, y: seen.pageY, width: seen.clientWidth, height: seen.clientHeight, scale };
  const { data } = await session.send("Page.captureScreenshot", { format: "png", clip });
  return Buffer.from(data, "base64");
}

/** Of all frames that have ids, in pixels of the window. */
async function marksOf(frame: Frame, offset = { x: 0, y: 0 }): Promise<Mark[]> {
  const own: Mark[] = await frame.evaluate(MARKS_SCRIPT);
  const marks = own.map((mark) => ({ ...mark, left: mark.left + offset.x, top: mark.top + offset.y }));
  for (const child of await markedChildren(frame)) {
    const box = await (await child.frameElement()).boundingBox();
    if (box !== null) marks.push(...(await marksOf(child, box)));
  }
  return marks;
}
