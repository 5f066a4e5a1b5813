// SPDX-License-Identifier: Apache-2.0
import type { Judgement } from "@whetstone/sdk";
import type { Page } from "playwright-core";
import { targetOf } from "../pool/requests.ts";
import type { SetupOptions, WebState, WebTask } from "./web-task.ts";

export interface SiteTaskOptions {
  /** Where it begins; its host and port are reached. */
  readonly url: string;
  readonly goal: string;
  /** What pages may connect to beside it, each "host:port". */
  readonly network?: readonly string[] | undefined;
  /** CSS pixels. Default 1280 × 720, as BrowserGym's. */
  readonly viewport?: { readonly width: number; readonly height: number } | undefined;
  /** Whether it is done, and what it is worth: asked after each action. */
  readonly check: (state: WebState) => Judgement | Promise<Judgement>;
}

/** Any site by its address. */
export function siteTask({ url, goal, network = [], viewport, check }: SiteTaskOptions): WebTask {
  const own = targetOf(new URL(url));
  return {
    viewport: viewport ?? { width: 1280, height: 720 },
    reach: [...(own === undefined ? [] : [own]), ...network],
    async setup(page: Page, { seed }: SetupOptions) {
      await openFirst(page, url.replaceAll("{seed}", String(seed)));
      return goal;
    },
    judge: async (state) => await check(state),
  };
}

/** @throws where nothing answers, or a server that has failed */
export async function openFirst(page: Page, url: string): Promise<void> {
  const answer = await page.goto(url, { waitUntil: "domcontentloaded" });
  if (answer !== null && answer.status() >= 500) throw new Error(`${url} answers with status ${answer.status()}`);
}

/** What has to hold, all of it, in WebArena's kinds: what the agent says, where it is, what the page shows. */
export interface SiteCheck {
  /** What the agent's last message has to contain, each of these; upper and lower case are the same. */
  readonly answer?: readonly string[] | undefined;
  /** A regular expression that the page's address has to match. */
  readonly url?: string | undefined;
  /** What elements of the page have to contain, by their CSS selector. */
  readonly texts?: readonly { readonly selector: string; readonly contains: string }[] | undefined;
}

const ELEMENT_MS = 1_000;

/** With an answer it is judged when the agent speaks; else it is done as soon as all of it holds. */
export function checkSite({ answer, url, texts = [] }: SiteCheck): SiteTaskOptions["check"] {
  return async ({ page, messages, infeasible }) => {
    const said = messages.at(-1);
    if (infeasible !== undefined) return { reward: 0, done: true };
    if (answer !== undefined && said === undefined) return { reward: 0, done: false };
    const holds =
      (answer ?? []).every((part) => (said ?? "").toLowerCase().includes(part.toLowerCase())) &&
      (url === undefined || new RegExp(url, "u").test(page.url())) &&
      (await everyText(page, texts));
    return { reward: holds ? 1 : 0, done: holds || answer !== undefined };
  };
}

async function everyText(page: Page, texts: NonNullable<SiteCheck["texts"]>): Promise<boolean> {
  for (const { selector, contains } of texts) {
    const first = page.locator(selector).first();
    const text = await first.textContent({ timeout: ELEMENT_MS }).catch(() => null);
    if (text === null || !text.includes(contains)) return false;
  }
  return true;
}
