// SPDX-License-Identifier: Apache-2.0
// The set of marks: which elements can be used, and boxes with their ids drawn over them while a picture is taken. As page-scripts.ts,
// JavaScript of browsers. Which elements are marked follows BrowserGym's rule; it draws on the picture, and here the page does.
import { BID_ATTRIBUTE } from "../actions/elements.ts";
import { ELEMENTS } from "./page-scripts.ts";

export interface Mark {
  readonly bid: string;
  /** CSS pixels of the window. */
  readonly left: number;
  readonly top: number;
  readonly width: number;
  readonly height: number;
}

const MARKED_TAGS = "a button iframe input li option select td textarea video";
/** Square pixels; what is smaller can hardly be seen. */
const SMALLEST = 20;
const OVERLAY = "whetstone-marks";

/** An expression: the elements of a frame that a click in their middle would reach and that are there to be used. */
export const MARKS_SCRIPT = `(() => {
  const tags = new Set("${MARKED_TAGS}".split(" "));
  const marked = [];
  for (const element of (${ELEMENTS})()) {
    const bid = element.getAttribute("${BID_ATTRIBUTE}");
    if (bid === null) continue;
    const tag = element.tagName.toLowerCase();
    const isUsed = tags.has(tag) || (element.onclick ?? null) !== null;
    if (!isUsed && getComputedStyle(element).cursor !== "pointer") continue;
    const { left, top, width, height } = element.getBoundingClientRect();
    if (width * height < ${SMALLEST}) continue;
    const hit = element.getRootNode().elementFromPoint(left + width / 2, top + height / 2);
    if (hit === null || !element.contains(hit)) continue;
    // What lies in a button or a link is a part of it; the pointer's form comes from the element around.
    const around = marked.filter((mark) => mark.element.contains(element));
    if (around.some((mark) => mark.isWhole || !isUsed)) continue;
    marked.push({ element, isWhole: tag === "button" || tag === "a", box: { bid, left, top, width, height } });
  }
  return marked.map(({ box }) => box);
})()`;

const BOX = "position:fixed;box-sizing:border-box;border:2px dashed #d00;";
const LABEL = "position:fixed;padding:0 2px;font:bold 10px/12px monospace;color:#fff;background:#d00;";

/** An expression: draws them. The page's own styles do not reach into it. */
export function overlayScript(marks: readonly Mark[]): string {
  return `((marks) => {
    const host = document.createElement("div");
    host.id = "${OVERLAY}";
    host.style.cssText = "all:initial;position:fixed;inset:0;z-index:2147483647;pointer-events:none";
    const root = host.attachShadow({ mode: "closed" });
    const draw = (style, place, text) => {
      const part = document.createElement("div");
      part.style.cssText = style + place;
      part.textContent = text;
      root.append(part);
    };
    for (const { bid, left, top, width, height } of marks) {
      draw("${BOX}", "left:" + left + "px;top:" + top + "px;width:" + width + "px;height:" + height + "px", "");
      draw("${LABEL}", "left:" + Math.max(0, left) + "px;top:" + Math.max(0, top - 12) + "px", bid);
    }
    document.documentElement.append(host);
  })(${JSON.stringify(marks)})`;
}

/** An expression: takes the drawing away. */
export const NO_OVERLAY_SCRIPT = `document.getElementById("${OVERLAY}")?.remove()`;
