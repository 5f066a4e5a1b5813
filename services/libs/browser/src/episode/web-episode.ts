// SPDX-License-Identifier: Apache-2.0
import { EpisodeError, type ImagePart, type Judgement } from "@whetstone/sdk";
import type { Page } from "playwright-core";
import { ActionError, type ActionScene } from "../actions/action.ts";
import type { ActionSpace } from "../actions/action-space.ts";
import { browserFailed, firstLines } from "../failure.ts";
import { type PageView, settle, titleOf, viewOf } from "../page/observe.ts";
import type { TreeOptions } from "../page/flatten.ts";
import type { Quiet } from "../page/page-scripts.ts";
import { pictureOf, type PictureOptions } from "../page/picture.ts";
import { Tabs } from "../page/tabs.ts";
import type { BrowserPool } from "../pool/browser-pool.ts";
import type { Lease } from "../pool/lease.ts";
import { mayReach } from "../pool/requests.ts";
import type { WebTask } from "../task/web-task.ts";
import { type ActionForm, askedBy, type Outcome } from "./forms.ts";
import type { Observation, TabView } from "./observation.ts";

export interface WebTimes extends Quiet {
  /** To open the first page and set the task up, milliseconds. */
  readonly setupMs: number;
  /** Of one action, and of reading the page after it, milliseconds. */
  readonly stepMs: number;
  /** How long an action may look for its element, and wait for it to be usable, milliseconds. */
  readonly elementMs: number;
}

export const DEFAULT_TIMES: WebTimes = { setupMs: 60_000, stepMs: 60_000, elementMs: 2_000, quietMs: 50, mostMs: 500 };

export interface WebEpisodeOptions {
  readonly task: WebTask;
  readonly space: ActionSpace;
  readonly seed: number;
  readonly times?: Partial<WebTimes> | undefined;
  readonly signal?: AbortSignal | undefined;
}

export interface ViewOptions extends TreeOptions {
  /** Undefined: no picture. */
  readonly picture?: Pick<PictureOptions, "marks"> | undefined;
  /** Of the tree; the rest is left out, and the agent is told. */
  readonly maxCharacters: number;
}

/** What an agent sees at one time. */
export interface Look {
  readonly observation: Observation;
  /** None, or one. */
  readonly images: readonly ImagePart[];
}

interface Own {
  readonly lease: Lease;
  readonly tabs: Tabs;
  readonly firstPage: Page;
  readonly goal: string;
  readonly times: WebTimes;
}

/** One episode in a context of a browser. */
export class WebEpisode implements AsyncDisposable {
  readonly #options: WebEpisodeOptions;
  readonly #own: Own;
  readonly #messages: string[] = [];
  #infeasible: string | undefined;
  #last = { action: "", error: "" };

  private constructor(options: WebEpisodeOptions, own: Own) {
    this.#options = options;
    this.#own = own;
  }

  /** @throws EpisodeError; nothing is left open then */
  static async open(pool: BrowserPool, options: WebEpisodeOptions): Promise<WebEpisode> {
    const { task, seed, signal } = options;
    const times = { ...DEFAULT_TIMES, ...options.times };
    const { viewport, sites = [], reach = [] } = task;
    await using undo = new AsyncDisposableStack();
    undo.defer(() => task.close?.());
    const lease = undo.use(await pool.lease({ viewport, sites, reach }, signal));
    const setUp = async () => {
      const tabs = new Tabs(lease.context);
      const firstPage = await tabs.open();
      const goal = await task.setup(firstPage, { seed, signal: both(lease.over, signal) });
      return { lease, tabs, firstPage, goal, times };
    };
    try {
      const own = await lease.run("to set the task up", setUp, { timeoutMs: times.setupMs, signal });
      undo.move();
      return new WebEpisode(options, own);
    } catch (error) {
      if (signal?.aborted || error instanceof EpisodeError) throw error;
      throw browserFailed("to set the task up", error);
    }
  }

  get url(): string {
    return this.#own.tabs.active.url();
  }

  /** Addresses that pages asked for and may not reach. */
  get refused(): readonly string[] {
    return this.#own.lease.requests.refused;
  }

  /** Does what an action asks for, one after the other, until one fails. @throws EpisodeError; the signal's reason */
  async act(action: unknown, form: ActionForm, signal?: AbortSignal): Promise<Outcome[]> {
    const { space } = this.#options;
    const outcomes: Outcome[] = [];
    let isStopped = false;
    for (const { id, shown, call, problem } of askedBy(action, form, space)) {
      let error: string = isStopped ? "an action before it failed" : problem;
      if (error === "" && call !== undefined)
        error = await this.#failing(() => space.perform(call, this.#scene(signal)), signal);
      isStopped ||= error !== "";
      outcomes.push({ id, shown, error });
    }
    const failed = outcomes.find(({ error }) => error !== "");
    this.#last = { action: outcomes[0]?.shown ?? "", error: failed?.error ?? "" };
    return outcomes;
  }

  /** Once the page is quiet. @throws EpisodeError; the signal's reason */
  async judge(signal?: AbortSignal): Promise<Judgement> {
    const { task, seed } = this.#options;
    const { tabs, firstPage, lease, times } = this.#own;
    const state = async () => {
      await tabs.ensureOne();
      await settle(tabs, times);
      const judged = { page: tabs.active, firstPage, messages: this.#messages, infeasible: this.#infeasible, seed };
      return await task.judge({ ...judged, signal: both(lease.over, signal) });
    };
    const { reward, done, info } = await this.#whole("to judge the page", state, signal);
    return { reward, done: done || this.#infeasible !== undefined, info };
  }

  /** @throws EpisodeError; the signal's reason */
  async observe({ maxCharacters, picture, ...options }: ViewOptions, signal?: AbortSignal): Promise<Look> {
    const { tabs, goal } = this.#own;
    const look = async (): Promise<Look> => {
      const view = await viewOf(tabs, options);
      const { tree, focusedBid } = view;
      const left = tree.length - maxCharacters;
      const axtree = left <= 0 ? tree : `${tree.slice(0, maxCharacters)}\n… ${left} characters are left out`;
      const { action: lastAction, error: lastActionError } = this.#last;
      const observation = {
        ...{ goal, url: tabs.active.url(), tabs: await tabViews(tabs, view), axtree },
        ...{ focusedElementBid: focusedBid, lastAction, lastActionError },
      };
      const image = picture && (await pictureOf(tabs, { ...picture, scale: this.#scale }));
      return { observation, images: image === undefined ? [] : [image] };
    };
    return await this.#whole("to read the page", look, signal);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#own.lease[Symbol.asyncDispose]();
    this.#options.task.close?.();
  }

  /** @returns what went wrong, for the agent; "": nothing */
  async #failing(perform: () => Promise<void>, signal: AbortSignal | undefined): Promise<string> {
    const { lease, times } = this.#own;
    try {
      await lease.run("to do an action", perform, { timeoutMs: times.stepMs, signal });
      return "";
    } catch (error) {
      if (signal?.aborted || error instanceof EpisodeError) throw error;
      return error instanceof ActionError ? `${error.name}: ${error.message}` : ofPlaywright(error);
    }
  }

  async #whole<T>(during: string, work: () => Promise<T>, signal: AbortSignal | undefined): Promise<T> {
    const { lease, times } = this.#own;
    try {
      return await lease.run(during, work, { timeoutMs: times.stepMs, signal });
    } catch (error) {
      if (signal?.aborted) throw error;
      throw browserFailed(during, error);
    }
  }

  #scene(signal: AbortSignal | undefined): ActionScene {
    const { tabs, lease, times } = this.#own;
    return {
      tabs,
      scale: this.#scale,
      timeoutMs: times.elementMs,
      signal: both(lease.over, signal),
      checkAddress: (address) => this.#checkAddress(address),
      say: (text) => this.#messages.push(text),
      giveUp: (reason) => (this.#infeasible = reason),
    };
  }

  get #scale(): number {
    return this.#options.task.scale ?? 1;
  }

  #checkAddress(address: string): void {
    const { reach = [], sites = [] } = this.#options.task;
    const url = URL.parse(address);
    const isOpen = url !== null && (sites.some(({ origin }) => origin === url.origin) || mayReach(reach)(url));
    if (isOpen || address === "about:blank") return;
    throw new ActionError("Error", `${address.slice(0, 200)} cannot be opened here`);
  }
}

function both(one: AbortSignal, other: AbortSignal | undefined): AbortSignal {
  return other === undefined ? one : AbortSignal.any([one, other]);
}

/** "locator.click: Timeout 2000ms exceeded." */
function ofPlaywright(error: unknown): string {
  const name = error instanceof Error && error.name !== "Error" ? error.name : "Error";
  return `${name}: ${firstLines(error)}`;
}

/** @param view  of the page that has been read: it is not asked for its title again */
async function tabViews({ active, all }: Tabs, view: PageView): Promise<TabView[]> {
  return await Promise.all(
    all.map(async (page) => ({
      title: page === view.page ? view.title : await titleOf(page),
      url: page.url(),
      isActive: page === active,
    })),
  );
}
