// SPDX-License-Identifier: Apache-2.0
import { Deadline, Gate, NoRoomError, raceSignal } from "@whetstone/core";
import { Chromium, type ChromiumOptions } from "../chromium/chromium.ts";
import { browserFailed } from "../failure.ts";
import type { Without } from "../guards.ts";
import type { ContextSettings } from "./context-settings.ts";
import { Lease } from "./lease.ts";

// P1: never more browsers than `maxBrowsers`, never more episodes in one than `contextsPerBrowser`. P2: a browser that has had
// `recycleAfter` episodes gets no other, and ends with its last: Chromium keeps a little of each. P3: when a browser ends, all of
// its episodes fail alike, and the next one gets another browser. P4: who waits for room is bounded in number, by `waitMs` and by its signal.

export interface BrowserPoolOptions {
  /** How a browser is started. It may have to find out first whether there are sandboxes. */
  readonly chromium: () => Promise<ChromiumOptions>;
  readonly maxBrowsers: number;
  readonly contextsPerBrowser: number;
  /** Episodes that a browser has before another takes its place. */
  readonly recycleAfter: number;
  /** Longest time that an episode has a context, milliseconds. */
  readonly leaseMs: number;
  /** A browser that nobody uses ends after this time, milliseconds. */
  readonly idleMs: number;
  /** Longest time that an episode waits for room, milliseconds. Default: until its signal ends it. */
  readonly waitMs?: number | undefined;
  /** For tests that see what a guard is good for. */
  readonly without?: Without | undefined;
}

const MAX_WAITING = 10_000;

interface Place {
  readonly starting: Promise<Chromium>;
  readonly leases: Set<Lease>;
  /** Taken, with those whose context is being made. */
  taken: number;
  served: number;
  idle: NodeJS.Timeout | undefined;
}

/** The browsers of one process. */
export class BrowserPool implements AsyncDisposable {
  readonly #options: BrowserPoolOptions;
  readonly #gate: Gate;
  readonly #places = new Set<Place>();
  /** Those who look again when a browser is gone. */
  #changed = Promise.withResolvers<void>();
  #isClosed = false;

  constructor(options: BrowserPoolOptions) {
    this.#options = options;
    this.#gate = new Gate(options.maxBrowsers * options.contextsPerBrowser, { maxQueued: MAX_WAITING });
  }

  /** Browsers now, those included that are being started. */
  get browsers(): number {
    return this.#places.size;
  }

  get contexts(): number {
    return [...this.#places].reduce((sum, { taken }) => sum + taken, 0);
  }

  /**
   * A context of an episode's own; dispose it at the episode's end.
   * @throws EpisodeError; NoRoomError after `waitMs`; the signal's reason
   */
  async lease(settings: ContextSettings, signal?: AbortSignal): Promise<Lease> {
    const { slot, place } = await this.#room(signal);
    try {
      return await this.#openIn(place, settings, { slot, signal });
    } catch (error) {
      slot[Symbol.dispose]();
      throw error;
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#isClosed = true;
    await Promise.all([...this.#places].map((place) => this.#remove(place)));
  }

  /** P4 */
  async #room(signal: AbortSignal | undefined): Promise<{ slot: Disposable; place: Place }> {
    const { waitMs = Number.POSITIVE_INFINITY, maxBrowsers, contextsPerBrowser } = this.#options;
    using patience = Deadline.after(waitMs, signal);
    let slot: Disposable | undefined;
    try {
      slot = await this.#gate.acquire(patience.signal);
      const place = await this.#placeWithRoom(patience.signal);
      place.taken += 1;
      place.served += 1;
      clearTimeout(place.idle);
      return { slot, place };
    } catch (error) {
      slot?.[Symbol.dispose]();
      if (!patience.signal.aborted || signal?.aborted === true) throw error;
      throw new NoRoomError(`all ${maxBrowsers * contextsPerBrowser} pages are in use`);
    }
  }

  async #openIn(
    place: Place,
    settings: ContextSettings,
    { slot, signal }: { slot: Disposable; signal: AbortSignal | undefined },
  ): Promise<Lease> {
    const { leaseMs, without } = this.#options;
    const onClose = (): void => {
      place.leases.delete(lease);
      place.taken -= 1;
      this.#afterLease(place);
      slot[Symbol.dispose]();
    };
    const lease: Lease = await this.#started(place, signal)
      .then((chromium) => Lease.open(chromium, settings, { leaseMs, without, onClose, signal }))
      .catch((error: unknown) => {
        place.taken -= 1;
        this.#afterLease(place);
        throw error;
      });
    place.leases.add(lease);
    return lease;
  }

  async #placeWithRoom(signal: AbortSignal | undefined): Promise<Place> {
    const { maxBrowsers, contextsPerBrowser, recycleAfter } = this.#options;
    for (;;) {
      if (this.#isClosed) throw browserFailed("to open a page", new Error("this env-runner ends"));
      const usable = [...this.#places].filter(
        (place) => place.taken < contextsPerBrowser && place.served < recycleAfter,
      );
      // The fullest first, so that others run empty.
      const [fullest] = usable.sort((one, other) => other.taken - one.taken);
      if (fullest !== undefined) return fullest;
      if (this.#places.size < maxBrowsers) return this.#start();
      await raceSignal(this.#changed.promise, signal);
    }
  }

  #start(): Place {
    const starting = this.#options.chromium().then((options) => Chromium.start(options));
    const place: Place = { starting, leases: new Set(), taken: 0, served: 0, idle: undefined };
    this.#places.add(place);
    starting.then(
      (chromium) => chromium.ended.addEventListener("abort", () => void this.#remove(place), { once: true }),
      () => this.#forget(place),
    );
    return place;
  }

  async #started(place: Place, signal: AbortSignal | undefined): Promise<Chromium> {
    try {
      return await raceSignal(place.starting, signal);
    } catch (error) {
      if (signal?.aborted) throw error;
      throw browserFailed("to start it", error);
    }
  }

  #afterLease(place: Place): void {
    if (place.taken > 0 || !this.#places.has(place)) return;
    if (place.served >= this.#options.recycleAfter) void this.#remove(place);
    else place.idle = setTimeout(() => void this.#remove(place), this.#options.idleMs).unref();
  }

  #forget(place: Place): void {
    clearTimeout(place.idle);
    this.#places.delete(place);
    this.#changed.resolve();
    this.#changed = Promise.withResolvers<void>();
  }

  /** It counts until it is gone. */
  async #remove(place: Place): Promise<void> {
    clearTimeout(place.idle);
    place.served = Infinity;
    const chromium = await place.starting.catch(() => undefined);
    await chromium?.[Symbol.asyncDispose]().catch(() => undefined);
    this.#forget(place);
  }
}
