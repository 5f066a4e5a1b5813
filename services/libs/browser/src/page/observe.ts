// SPDX-License-Identifier: Apache-2.0
import { sleep } from "@whetstone/core";
import type { CDPSession, Frame, Page } from "playwright-core";
import { BID_ATTRIBUTE } from "../actions/elements.ts";
import type { AxNode } from "./ax-node.ts";
import { flattenTree, type TreeOptions } from "./flatten.ts";
import { markScript, type Quiet, quietScript, UNMARK_SCRIPT, type Unmarked } from "./page-scripts.ts";
import type { Tabs } from "./tabs.ts";

export interface PageView {
  /** That was read: another may be the active one by now. */
  readonly page: Page;
  readonly title: string;
  /** The accessibility tree as text, with the ids that actions name. */
  readonly tree: string;
  /** Of the element that has the focus; "": none. */
  readonly focusedBid: string;
}

const TRIES = 5;
const BETWEEN_MS = 100;
/** Pages go on while they are looked at: then they are looked at once more. */
const GONE_ON =
  /Frame was detached|Frame has been detached|frameId is not found|context was destroyed|without a bid|properties of undefined|navigat|Target closed|No frame/u;
const LOAD_MS = 3_000;
/** A new tab. Nothing is asked of it: over a connection of our own its document may have come before anybody could hear of it. */
export const BLANK = "about:blank";

export async function titleOf(page: Page): Promise<string> {
  return page.url() === BLANK ? "" : await page.title().catch(() => "");
}

/** Waits until the active page is loaded and quiet. */
export async function settle(tabs: Tabs, quiet: Quiet): Promise<void> {
  if (tabs.active.url() === BLANK) return;
  await onActivePage(tabs, async (page) => {
    if (quiet.quietMs > 0) await page.evaluate(quietScript(quiet));
  });
}

/** Reads the active page. */
export async function viewOf(tabs: Tabs, options: TreeOptions): Promise<PageView> {
  const page = tabs.active;
  if (page.url() === BLANK) return { page, title: "", tree: "RootWebArea ''", focusedBid: "" };
  return await onActivePage(tabs, async (loaded) => readPage(loaded, await tabs.session(loaded), options));
}

export async function onActivePage<T>(tabs: Tabs, work: (page: Page) => Promise<T>): Promise<T> {
  for (let left = TRIES - 1; ; left -= 1) {
    await tabs.ensureOne();
    const page = tabs.active;
    try {
      await page.waitForLoadState("domcontentloaded", { timeout: LOAD_MS }).catch(() => undefined);
      return await work(page);
    } catch (error) {
      const isOther = page !== tabs.active || page.isClosed();
      if (left === 0 || !(isOther || GONE_ON.test(String(error)))) throw error;
    }
    await sleep(BETWEEN_MS);
  }
}

async function readPage(page: Page, session: CDPSession, options: TreeOptions): Promise<PageView> {
  const frames = await markFrames(page.mainFrame(), "");
  const nodes = frames.length === 1 ? await treeOf(session) : await mergedTree(session);
  let [title, focusedBid] = ["", ""];
  for (const frame of frames) {
    const found = await frame.evaluate<Unmarked>(UNMARK_SCRIPT);
    const isMain = frame === page.mainFrame();
    if (isMain) title = found.title;
    // In the frame that has the focus, its parent names the frame itself.
    if (found.focusedBid !== "" && (isMain || found.focusedBid.startsWith(focusedBid))) focusedBid = found.focusedBid;
  }
  return { page, title, tree: flattenTree(nodes, options), focusedBid };
}

/** @returns the frames that were marked, parents before their children */
async function markFrames(frame: Frame, bid: string): Promise<Frame[]> {
  await frame.evaluate(markScript(bid));
  const marked = [frame];
  for (const child of await markedChildren(frame)) {
    const childBid = await (await child.frameElement()).getAttribute(BID_ATTRIBUTE);
    if (childBid === null) throw new Error("a frame without a bid");
    marked.push(...(await markFrames(child, childBid)));
  }
  return marked;
}

/** The frames in a frame whose elements get ids: those that may run scripts. */
export async function markedChildren(frame: Frame): Promise<Frame[]> {
  const marked: Frame[] = [];
  for (const child of frame.childFrames()) {
    if (child.isDetached()) continue;
    const element = await child.frameElement();
    const sandbox = await element.getAttribute("sandbox");
    if (sandbox !== null && !sandbox.split(/\s+/u).includes("allow-scripts")) continue;
    if ((await element.contentFrame()) === child) marked.push(child);
  }
  return marked;
}

async function treeOf(session: CDPSession, frameId?: string): Promise<AxNode[]> {
  const { nodes } = await session.send("Accessibility.getFullAXTree", frameId === undefined ? {} : { frameId });
  return nodes;
}

interface FrameTree {
  readonly frame: { readonly id: string };
  readonly childFrames?: readonly FrameTree[];
}

/** Trees are by frame; each hangs below the node of its frame. */
async function mergedTree(session: CDPSession): Promise<AxNode[]> {
  const { frameTree } = await session.send("Page.getFrameTree");
  const trees = new Map<string, AxNode[]>();
  for (const id of idsOf(frameTree)) trees.set(id, await treeOf(session, id));
  const merged: AxNode[] = [];
  for (const node of [...trees.values()].flat()) {
    const below = node.role?.value === "Iframe" ? trees.get(await frameIdOf(session, node))?.[0] : undefined;
    merged.push(below === undefined ? node : { ...node, childIds: [...(node.childIds ?? []), below.nodeId] });
  }
  return merged;
}

function idsOf({ frame, childFrames = [] }: FrameTree): string[] {
  return [frame.id, ...childFrames.flatMap(idsOf)];
}

async function frameIdOf(session: CDPSession, { backendDOMNodeId }: AxNode): Promise<string> {
  if (backendDOMNodeId === undefined) return "";
  const { node } = await session.send("DOM.describeNode", { backendNodeId: backendDOMNodeId });
  return node.frameId ?? "";
}
