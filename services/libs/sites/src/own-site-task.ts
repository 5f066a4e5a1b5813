// SPDX-License-Identifier: Apache-2.0
import type { Judgement, SetupOptions, Site, WebState, WebTask } from "@whetstone/browser";
import type { Page } from "playwright-core";
import { OwnSite } from "./own-site.ts";
import type { SiteKind } from "./site.ts";

const NOT_THERE = { status: 404, headers: {}, body: Buffer.alloc(0) };

/** A goal on a site that the episode has to itself: made from its seed when it begins, gone when it ends. */
export class OwnSiteTask implements WebTask {
  readonly viewport = { width: 1280, height: 720 };
  readonly sites: readonly Site[];
  readonly #kind: SiteKind;
  readonly #goal: string | undefined;
  readonly #origin: string;
  #site: OwnSite | undefined;

  /** @param goal  name of one of the kind's goals; undefined: drawn by the seed */
  constructor(kind: SiteKind, goal?: string) {
    this.#kind = kind;
    this.#goal = goal;
    this.#origin = `http://${kind.name}.test`;
    this.sites = [
      { origin: this.#origin, answer: async (request) => (await this.#site?.answer(request)) ?? NOT_THERE },
    ];
  }

  async setup(page: Page, { seed }: SetupOptions): Promise<string> {
    this.#site = new OwnSite(this.#kind, seed, this.#goal);
    await page.goto(`${this.#origin}/`, { waitUntil: "domcontentloaded" });
    return this.#site.goal.text;
  }

  /** With an answer it is judged when the agent speaks; else it is done as soon as all that the goal wants holds. */
  async judge({ page, messages, infeasible }: WebState): Promise<Judgement> {
    const site = this.#site;
    const said = messages.at(-1);
    if (site === undefined || infeasible !== undefined) return { reward: 0, done: true };
    const { answer, path } = site.goal;
    if (answer !== undefined && said === undefined) return { reward: 0, done: false };
    const holds =
      (answer === undefined || says(said ?? "", answer)) &&
      (path === undefined || page.url() === `${this.#origin}${path}`) &&
      site.isAsWanted;
    return { reward: holds ? 1 : 0, done: holds || answer !== undefined };
  }

  close(): void {
    this.#site?.[Symbol.dispose]();
    this.#site = undefined;
  }
}

/** "3" is not said by "13", nor "$2.50" by "$12.50". */
export function says(text: string, answer: string): boolean {
  const escaped = answer.replace(/[.*+?^${}()|[\]\\]/gu, "\\$&");
  return new RegExp(`(?<![\\p{L}\\p{N}.,$])${escaped}(?![\\p{L}\\p{N}]|[.,]\\p{N})`, "iu").test(text);
}
