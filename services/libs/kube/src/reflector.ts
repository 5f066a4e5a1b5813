// SPDX-License-Identifier: Apache-2.0
import { isAbort, sleep, WhetstoneError } from "@whetstone/core";
import { answerError, httpStatus, retryAfterMs, type Status } from "./api-error.ts";
import type { Kube, Page } from "./kube.ts";
import { ObjectCache } from "./object-cache.ts";
import type { KubeObject, ResourceType, Stored } from "./objects.ts";

/** Bookmarks come about once a minute: a watch that is silent for longer has died without saying so. */
const SILENCE_MS = 90_000;
const RELIST_MS = 600_000;
const BACKOFF_MS = { first: 800, most: 30_000 } as const;
/** A watch that lived this long was a healthy one, whatever ended it. */
const HEALTHY_MS = 10_000;
const OVERTIME_MS = 5_000;

export interface ReflectOptions<T extends KubeObject> {
  /** Label selector, so that only what is ours is in memory. */
  readonly labels?: string | undefined;
  readonly fields?: string | undefined;
  /** Called when an object came, changed or went (then with its last known form). Must only note keys; a throw is logged. */
  readonly onChange: (key: string, object: Stored<T>) => void;
  /** Makes `by(value)` find objects: `(pod) => pod.metadata.labels?.["whetstone.dev/pool"]`. */
  readonly indexBy?: (object: Stored<T>) => string | undefined;
  /** Drops what nobody reads before it is kept; managedFields are always dropped. */
  readonly trim?: (object: Stored<T>) => Stored<T>;
  readonly signal?: AbortSignal | undefined;
  readonly timing?: Partial<ReflectTiming>;
}

export interface ReflectTiming {
  readonly silenceMs: number;
  /** Everything is listed again after this time, ±10 %, whatever the watch says. */
  readonly relistMs: number;
  readonly firstBackoffMs: number;
  readonly maxBackoffMs: number;
  readonly watchSeconds: () => number;
  readonly random: () => number;
}

export interface Reflector<T extends KubeObject> extends Disposable {
  get(key: string): Stored<T> | undefined;
  all(): Stored<T>[];
  /** Those whose `indexBy` is this value. */
  by(value: string): Stored<T>[];
  readonly size: number;
  /** Resolves when everything that is there has been listed once. */
  readonly synced: Promise<void>;
}

/** Keeps the objects of one kind in memory, from a list and the watch that goes on from it, across any failure of the server. */
export function reflect<T extends KubeObject>(
  kube: Kube,
  type: ResourceType<T>,
  options: ReflectOptions<T>,
): Reflector<T> {
  const reflection = new Reflection(kube, type, options);
  reflection.start();
  return reflection;
}

class Reflection<T extends KubeObject> implements Reflector<T> {
  readonly synced: Promise<void>;
  readonly #kube: Kube;
  readonly #type: ResourceType<T>;
  readonly #options: ReflectOptions<T>;
  readonly #timing: ReflectTiming;
  readonly #cache: ObjectCache<T>;
  readonly #stop = new AbortController();
  readonly #isSynced = Promise.withResolvers<void>();
  #version = "";
  #relistAt = 0;
  #failures = 0;
  /** Pages are of one moment; when that moment is forgotten while they are read, all is asked for at once. */
  #paged = true;

  constructor(kube: Kube, type: ResourceType<T>, options: ReflectOptions<T>) {
    this.#kube = kube;
    this.#type = type;
    this.#options = options;
    this.#timing = timingOf(options.timing);
    this.#cache = new ObjectCache(options.indexBy);
    this.synced = this.#isSynced.promise;
    this.synced.catch(() => undefined);
  }

  get size(): number {
    return this.#cache.size;
  }

  get(key: string): Stored<T> | undefined {
    return this.#cache.get(key);
  }

  all(): Stored<T>[] {
    return this.#cache.all();
  }

  by(value: string): Stored<T>[] {
    return this.#cache.by(value);
  }

  start(): void {
    const { signal } = this.#options;
    if (signal?.aborted) this.#stop.abort();
    signal?.addEventListener("abort", () => this.#stop.abort(), { once: true, signal: this.#stop.signal });
    void this.#run().finally(() => this.#isSynced.reject(new WhetstoneError("CANCELLED", "the reflector was closed")));
  }

  [Symbol.dispose](): void {
    this.#stop.abort();
  }

  /** A list, then watches that go on from it until it is time for another list. */
  async #run(): Promise<void> {
    let reason = "start";
    while (!this.#stop.signal.aborted) {
      const ended = await this.#attempt(async () => {
        await this.#relist(reason);
        return "listed" as const;
      });
      if (ended === "listed") reason = await this.#follow();
    }
  }

  /** @returns why everything has to be listed again. */
  async #follow(): Promise<string> {
    while (!this.#stop.signal.aborted) {
      if (performance.now() >= this.#relistAt) return "interval";
      if ((await this.#attempt(() => this.#watchOnce())) === "gone") return "gone";
    }
    return "closed";
  }

  /** Waits after a failure, as long as the server asks for, or longer each time. */
  async #attempt<R>(work: () => Promise<R>): Promise<R | "failed" | "gone"> {
    try {
      return await work();
    } catch (error) {
      if (this.#stop.signal.aborted) return "failed";
      const gone = httpStatus(error) === 410;
      if (gone) this.#version = "";
      // The first 410 after a healthy time costs no wait: nothing is seen until the list is there.
      if (!gone || this.#failures > 0) await this.#pause(error);
      else this.#failures++;
      return gone ? "gone" : "failed";
    }
  }

  async #pause(error: unknown): Promise<void> {
    const { firstBackoffMs, maxBackoffMs, random } = this.#timing;
    const grown = Math.min(maxBackoffMs, firstBackoffMs * 2 ** this.#failures++);
    const waitMs =
      retryAfterMs(error) === undefined
        ? grown * (0.5 + random() / 2)
        : (retryAfterMs(error) as number) * (1 + random() / 4);
    const log = isAbort(error) || this.#failures === 1 ? "debug" : "warn";
    this.#kube.logger[log]("kube_watch_failed", { kind: this.#type.kind, waitMs: Math.round(waitMs), error });
    await sleep(waitMs, this.#stop.signal).catch(() => undefined);
  }

  async #relist(reason: string): Promise<void> {
    this.#kube.instruments.relist(this.#type.kind, reason);
    const seen = new Set<string>();
    let version = "";
    try {
      for (let next: string | undefined = ""; next !== undefined;) {
        const limit = this.#paged ? 500 : 0;
        const page: Page<T> = await this.#kube.listPage(this.#type, { ...this.#scope(), next, limit, patient: false });
        for (const item of page.items) seen.add(this.#keep(item));
        ({ next, resourceVersion: version } = page);
      }
    } catch (error) {
      this.#paged = httpStatus(error) !== 410;
      throw error;
    }
    this.#paged = true;
    for (const key of this.#cache.keys()) if (!seen.has(key)) this.#drop(key);
    this.#version = version;
    this.#relistAt = performance.now() + this.#timing.relistMs * (0.9 + this.#timing.random() / 5);
    this.#kube.instruments.cached(this.#type.kind, this.#cache.size);
    this.#isSynced.resolve();
  }

  async #watchOnce(): Promise<void> {
    const openedAt = performance.now();
    const wanted = this.#timing.watchSeconds();
    const leftMs = Math.max(1000, this.#relistAt - openedAt);
    const timeoutSeconds = Math.min(wanted, Math.ceil(leftMs / 1000));
    // A server that forgets its own timeout is left a little later.
    const signal = AbortSignal.any([this.#stop.signal, AbortSignal.timeout(Math.round(leftMs) + OVERTIME_MS)]);
    const at = { ...this.#scope(), resourceVersion: this.#version, timeoutSeconds, signal };
    this.#kube.instruments.watchOpened(this.#type.kind);
    let events = 0;
    try {
      for await (const line of this.#kube.watch(this.#type, at, this.#timing.silenceMs)) {
        this.#take(JSON.parse(line) as WatchEvent<T>);
        events++;
      }
    } finally {
      if (events > 0 || performance.now() - openedAt > HEALTHY_MS) this.#failures = 0;
    }
    // Servers end watches at their time; one that ends at once and says nothing would be asked in a tight loop.
    if (events === 0 && performance.now() - openedAt < 1000)
      throw new WhetstoneError("UNAVAILABLE", "the watch ended before it said anything");
  }

  #take(event: WatchEvent<T>): void {
    this.#kube.instruments.event(this.#type.kind, event.type);
    if (event.type === "ERROR") throw watchError(this.#type.kind, event.object as Status);
    const object = event.object as Stored<T>;
    this.#version = object.metadata.resourceVersion;
    if (event.type === "BOOKMARK") return;
    if (event.type === "DELETED") this.#drop(object.metadata.name);
    else this.#keep(object);
    this.#kube.instruments.cached(this.#type.kind, this.#cache.size);
  }

  #keep(object: Stored<T>): string {
    const key = object.metadata.name;
    delete (object.metadata as { managedFields?: unknown }).managedFields;
    const kept = this.#options.trim ? this.#options.trim(object) : object;
    const former = this.#cache.get(key);
    if (former && former.metadata.uid !== object.metadata.uid) this.#tell(key, former);
    if (this.#cache.set(key, kept)) this.#tell(key, kept);
    return key;
  }

  #drop(key: string): void {
    const gone = this.#cache.delete(key);
    if (gone) this.#tell(key, gone);
  }

  #tell(key: string, object: Stored<T>): void {
    try {
      this.#options.onChange(key, object);
    } catch (error) {
      this.#kube.logger.error("kube_handler_failed", { kind: this.#type.kind, key, error });
    }
  }

  #scope() {
    const { labels, fields } = this.#options;
    return { labels, fields, signal: this.#stop.signal };
  }
}

interface WatchEvent<T> {
  readonly type: "ADDED" | "MODIFIED" | "DELETED" | "BOOKMARK" | "ERROR";
  readonly object: Stored<T> | Status;
}

function watchError(kind: string, status: Status): WhetstoneError {
  return answerError(`watch ${kind}`, status.code ?? 500, JSON.stringify(status));
}

function timingOf(given: Partial<ReflectTiming> | undefined): ReflectTiming {
  const random = given?.random ?? Math.random;
  return {
    silenceMs: SILENCE_MS,
    relistMs: RELIST_MS,
    firstBackoffMs: BACKOFF_MS.first,
    maxBackoffMs: BACKOFF_MS.most,
    watchSeconds: () => 300 + Math.floor(random() * 300),
    random,
    ...given,
  };
}
