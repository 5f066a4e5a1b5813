// SPDX-License-Identifier: Apache-2.0
import { abortReason, WhetstoneError, withTimeout } from "@whetstone/core";
import { type BrowserTask, checkPage, EpisodeError, type Judgement, servePage } from "@whetstone/sdk";
import type { Page } from "playwright-core";
import type { Site, SiteAnswer, SiteRequest } from "../pool/site.ts";
import { readState } from "./page-state.ts";
import { openFirst } from "./site-task.ts";
import type { SetupOptions, WebState, WebTask } from "./web-task.ts";

// B1: what the task's functions throw, and that they take too long, is the environment's failure or of the class that an
// EpisodeError names; it is never a reward. B2: a page that could not be served fails the episode, whatever the browser made of it.

const CALL_MS = 30_000;
const DEFAULT_VIEWPORT = { width: 1280, height: 720 };

export interface BrowserTaskOptions {
  /** What pages may connect to, each "host:port". */
  readonly reach: readonly string[];
}

/** A task of a browser that was begun, with functions in this process or in another. */
export function browserTask(task: BrowserTask, options: BrowserTaskOptions): WebTask {
  return new CheckedTask(task, options);
}

class CheckedTask implements WebTask {
  readonly viewport: WebTask["viewport"];
  readonly reach: readonly string[];
  readonly sites: readonly Site[];
  readonly #task: BrowserTask;
  readonly #closing = new AbortController();
  /** Why a page could not be served. */
  #failed: EpisodeError | undefined;

  constructor(task: BrowserTask, { reach }: BrowserTaskOptions) {
    this.#task = task;
    this.reach = reach;
    this.viewport = task.settings?.viewport ?? DEFAULT_VIEWPORT;
    const { origin } = new URL(task.url);
    this.sites = task.serve === undefined ? [] : [{ origin, answer: (request) => this.#answer(request) }];
  }

  async setup(page: Page, _options: SetupOptions): Promise<string> {
    try {
      await openFirst(page, this.#task.url);
    } finally {
      this.#throwIfFailed();
    }
    return this.#task.goal;
  }

  async judge({ page, messages, infeasible, signal }: WebState): Promise<Judgement> {
    this.#throwIfFailed(); // B2
    const state = { ...(await readState(page, this.#task.reads ?? {})), messages, infeasible };
    return await this.#call("check", (until) => checkPage(this.#task, state, { signal: until }), signal);
  }

  close(): void {
    this.#closing.abort(new EpisodeError("ENVIRONMENT", "browser: the episode's pages were closed"));
  }

  async #answer({ method, path, headers, body }: SiteRequest): Promise<SiteAnswer> {
    const request = { method, path, headers, body: body?.toString("utf8") ?? "" };
    try {
      const { signal } = this.#closing;
      const answer = await this.#call("serve", (until) => servePage(this.#task, request, { signal: until }), signal);
      return { ...answer, body: Buffer.from(answer.body) };
    } catch (error) {
      if (!this.#closing.signal.aborted) this.#failed ??= error as EpisodeError;
      return { status: 500, headers: { "content-type": "text/plain" }, body: Buffer.from("the site has failed") };
    }
  }

  /** B1 */
  async #call<T>(name: string, work: (until: AbortSignal) => Promise<T>, signal: AbortSignal): Promise<T> {
    const { callTimeoutMs: timeoutMs = CALL_MS } = this.#task;
    try {
      return await withTimeout(work, { timeoutMs, signal });
    } catch (error) {
      if (signal.aborted) throw abortReason(signal);
      if (error instanceof EpisodeError) throw error;
      const { code, message } = WhetstoneError.from(error);
      const why = code === "DEADLINE_EXCEEDED" ? `took longer than ${timeoutMs} ms` : `failed: ${message}`;
      throw new EpisodeError("ENVIRONMENT", `the browser task's ${name}() ${why}`, { cause: error });
    }
  }

  #throwIfFailed(): void {
    if (this.#failed !== undefined) throw this.#failed;
  }
}
