// SPDX-License-Identifier: Apache-2.0
import type { BrowserContext, CDPSession, Page } from "playwright-core";

/**
 * The pages of one episode, and which of them is looked at: the newest, until another is focused. When that one closes, the one
 * before it; when none is left, a new one.
 */
export class Tabs {
  readonly #context: BrowserContext;
  readonly #sessions = new WeakMap<Page, Promise<CDPSession>>();
  /** The one that is looked at is last. */
  #recent: Page[] = [];

  constructor(context: BrowserContext) {
    this.#context = context;
    context.on("page", (page) => this.focus(page));
  }

  get active(): Page {
    const page = this.#recent.findLast((each) => !each.isClosed());
    if (page === undefined) throw new Error("no page is open");
    return page;
  }

  /** In the order in which they were opened. */
  get all(): readonly Page[] {
    return this.#context.pages();
  }

  focus(page: Page): void {
    this.#recent = [...this.#recent.filter((each) => each !== page && !each.isClosed()), page];
  }

  async open(): Promise<Page> {
    const page = await this.#context.newPage();
    this.focus(page);
    return page;
  }

  /** After an action: the page may have closed itself. */
  async ensureOne(): Promise<void> {
    if (this.#recent.every((page) => page.isClosed())) await this.open();
  }

  /** For what Playwright does not say of a page; kept as long as the page is. */
  session(page: Page): Promise<CDPSession> {
    const known = this.#sessions.get(page) ?? this.#context.newCDPSession(page);
    this.#sessions.set(page, known);
    return known;
  }
}
