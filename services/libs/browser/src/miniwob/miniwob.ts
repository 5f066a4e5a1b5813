// SPDX-License-Identifier: Apache-2.0
import { existsSync, readdirSync } from "node:fs";
import { join } from "node:path";
import type { Judgement } from "@whetstone/sdk";
import type { Page } from "playwright-core";
import { SiteFiles } from "../pool/site-files.ts";
import type { SetupOptions, WebState, WebTask } from "../task/web-task.ts";
import { type MiniwobResult, RESULT_SCRIPT, startScript } from "./miniwob-scripts.ts";
import { pageSeed } from "./numpy-seed.ts";

const ORIGIN = "http://miniwob.test";
const PAGE = /^[a-z0-9-]+\.html$/u;

/** The pages of the package `miniwob`, on this machine. */
export class Miniwob {
  readonly files: SiteFiles;
  /** "click-button", …: all need no network. */
  readonly tasks: readonly string[];

  private constructor(folder: string) {
    this.files = new SiteFiles(ORIGIN, folder);
    this.tasks = readdirSync(join(folder, "miniwob"))
      .filter((name) => PAGE.test(name))
      .map((name) => name.slice(0, -".html".length))
      .sort();
  }

  /** @param folder  where the package is installed. Undefined: it is not there */
  static in(folder: string): Miniwob | undefined {
    const html = join(folder, "miniwob", "html");
    return existsSync(join(html, "core", "core.js")) ? new Miniwob(html) : undefined;
  }

  /** For one episode. */
  task(name: string): WebTask {
    return new MiniwobTask(this.files, name);
  }
}

/** The same seeds, goals and rewards as BrowserGym's: 1 where the page's own reward is above 0. */
class MiniwobTask implements WebTask {
  readonly viewport = { width: 332, height: 214 };
  readonly scale = 1.5;
  readonly sites: readonly SiteFiles[];
  readonly #name: string;
  readonly #url: string;

  constructor(files: SiteFiles, name: string) {
    this.sites = [files];
    this.#name = name;
    this.#url = `${ORIGIN}/miniwob/${name}.html`;
  }

  async setup(page: Page, { seed }: SetupOptions): Promise<string> {
    await page.goto(this.#url, { waitUntil: "load" });
    return await page.evaluate<string>(startScript(this.#name, pageSeed(seed)));
  }

  /** Whoever leaves the page has lost. A link within it ("#") leaves nothing: BrowserGym, where it does, has no way through some tasks. */
  async judge({ page, firstPage }: WebState): Promise<Judgement> {
    if (page !== firstPage || page.url().split("#")[0] !== this.#url)
      return { reward: 0, done: true, info: { miniwobReason: "the page was left" } };
    const { done, rawReward, reason } = await page.evaluate<MiniwobResult>(RESULT_SCRIPT);
    return { reward: rawReward > 0 ? 1 : 0, done, info: { miniwobReward: rawReward, miniwobReason: reason ?? "" } };
  }
}
