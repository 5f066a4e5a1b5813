// SPDX-License-Identifier: Apache-2.0
import { abortReason, isAbort, raceSignal, withTimeout } from "@whetstone/core";
import { EpisodeError } from "@whetstone/sdk";
import type { BrowserContext, Page } from "playwright-core";
import type { Chromium } from "../chromium/chromium.ts";
import { browserFailed } from "../failure.ts";
import type { Without } from "../guards.ts";
import { keepRequests, type Requests } from "./requests.ts";
import type { ContextSettings } from "./context-settings.ts";

export interface LeaseOptions {
  readonly leaseMs: number;
  readonly without?: Without | undefined;
  readonly onClose: () => void;
  readonly signal?: AbortSignal | undefined;
}

const OPEN_MS = 30_000;
const CLOSE_MS = 5_000;

/** A browser context that one episode has to itself: cookies, storage, cache and what its pages may reach. */
export class Lease implements AsyncDisposable {
  readonly context: BrowserContext;
  readonly requests: Requests;
  readonly #chromium: Chromium;
  readonly #over = new AbortController();
  readonly #closers = new AsyncDisposableStack();
  #closing: Promise<void> | undefined;

  private constructor(chromium: Chromium, context: BrowserContext, requests: Requests) {
    this.#chromium = chromium;
    this.context = context;
    this.requests = requests;
  }

  /** @throws EpisodeError; the signal's reason */
  static async open(chromium: Chromium, settings: ContextSettings, options: LeaseOptions): Promise<Lease> {
    const { leaseMs, without = new Set(), onClose, signal } = options;
    await using undo = new AsyncDisposableStack();
    try {
      const proxy = undo.use(await chromium.reach.open(settings.reach));
      const server = without.has("proxy") ? undefined : proxy.server;
      const shared = without.has("own context") ? chromium.browser.contexts()[0] : undefined;
      const context = shared ?? (await within(makeContext(chromium, settings, server), signal));
      if (shared === undefined) undo.defer(() => closeContext(context, chromium));
      const requests = await within(keepRequests(context, settings, without), signal);
      const lease = new Lease(chromium, context, requests);
      lease.#closers.defer(onClose);
      lease.#closers.use(undo.move());
      lease.#watch(leaseMs);
      return lease;
    } catch (error) {
      if (signal?.aborted) throw abortReason(signal);
      throw browserFailed("to open a context", chromium.ended.aborted ? abortReason(chromium.ended) : error);
    }
  }

  /** Aborts when the context cannot be used any more, with an EpisodeError that says why. */
  get over(): AbortSignal {
    return this.#over.signal;
  }

  /**
   * Work in the context, which is the browser's failure when it takes too long or when the browser ends meanwhile.
   * @param during  "to open a page"
   * @throws EpisodeError; the signal's reason; what `work` throws
   */
  async run<T>(
    during: string,
    work: () => Promise<T>,
    { timeoutMs, signal }: { readonly timeoutMs: number; readonly signal?: AbortSignal | undefined },
  ): Promise<T> {
    const both = AbortSignal.any([this.over, ...(signal ? [signal] : [])]);
    try {
      return await withTimeout(work, { timeoutMs, signal: both });
    } catch (error) {
      if (signal?.aborted) throw abortReason(signal);
      if (this.over.aborted) throw abortReason(this.over);
      if (isDeadline(error)) throw await this.#tooLate(during, timeoutMs);
      throw error;
    }
  }

  /** The episode is over for this reason, whatever is done now. */
  fail(error: EpisodeError): void {
    if (!this.over.aborted) this.#over.abort(error);
  }

  [Symbol.asyncDispose](): Promise<void> {
    this.fail(new EpisodeError("ENVIRONMENT", "browser: the episode's pages were closed"));
    this.#closing ??= this.#closers.disposeAsync();
    return this.#closing;
  }

  /** A page that hangs is its own matter; a browser that does is everybody's. */
  async #tooLate(during: string, timeoutMs: number): Promise<EpisodeError> {
    if (await this.#chromium.isAlive())
      return browserFailed(during, new Error(`the page did not answer within ${timeoutMs} ms`));
    this.#chromium.kill("it did not answer, and was killed");
    return browserFailed(during, abortReason(this.#chromium.ended));
  }

  #watch(leaseMs: number): void {
    const { ended } = this.#chromium;
    const onEnd = (): void => this.fail(browserFailed("to keep its pages", abortReason(ended)));
    if (ended.aborted) onEnd();
    ended.addEventListener("abort", onEnd, { once: true });
    const timer = setTimeout(() => {
      this.fail(
        new EpisodeError("ENVIRONMENT", `browser: an episode had its pages for ${leaseMs} ms, the longest time`),
      );
      void this[Symbol.asyncDispose]();
    }, leaseMs).unref();
    const onPage = (page: Page): unknown =>
      page.once("crash", () => this.fail(browserFailed("to keep its pages", new Error("a page crashed"))));
    this.context.on("page", onPage);
    this.#closers.defer(() => {
      clearTimeout(timer);
      ended.removeEventListener("abort", onEnd);
      this.context.off("page", onPage);
    });
  }
}

function makeContext(chromium: Chromium, { viewport }: ContextSettings, server: string | undefined) {
  return chromium.browser.newContext({
    viewport,
    serviceWorkers: "block",
    acceptDownloads: false,
    // What a job does not name is refused there, too: redirects and sockets are not asked about before.
    ...(server === undefined ? {} : { proxy: { server } }),
  });
}

function within<T>(work: Promise<T>, signal: AbortSignal | undefined): Promise<T> {
  return withTimeout(() => work, { timeoutMs: OPEN_MS, signal });
}

/** One that does not close keeps its pages: then the browser has to go. */
async function closeContext(context: BrowserContext, chromium: Chromium): Promise<void> {
  if (chromium.ended.aborted) return;
  try {
    await raceSignal(
      withTimeout(() => context.close(), { timeoutMs: CLOSE_MS }),
      chromium.ended,
    );
  } catch {
    if (!chromium.ended.aborted) chromium.kill("a context of it could not be closed");
  }
}

function isDeadline(error: unknown): boolean {
  return isAbort(error) || (error as { code?: unknown } | null)?.code === "DEADLINE_EXCEEDED";
}
