// SPDX-License-Identifier: Apache-2.0

// The contract of client-go's queues: Q1 a key is never worked on twice at once. Q2 a key that is added while it waits is one
// piece of work. Q3 a key that is added while it is worked on comes again afterwards. Q4 first come, first served, the keys of
// low priority last. Q5 of several waits for one key the shortest counts. Q6 after `close` nothing new is handed out.

export type Priority = "normal" | "low";

export class WorkQueue {
  readonly #ready: Record<Priority, Set<string>> = { normal: new Set(), low: new Set() };
  readonly #dirty = new Set<string>();
  readonly #processing = new Set<string>();
  readonly #later = new Map<string, { at: number; timer: NodeJS.Timeout }>();
  #takers: ((key: string | undefined) => void)[] = [];
  #closed = false;

  /** Keys that wait for a worker now. */
  get depth(): number {
    return this.#ready.normal.size + this.#ready.low.size;
  }

  add(key: string, priority: Priority = "normal"): void {
    if (this.#closed) return;
    if (this.#dirty.has(key)) {
      if (priority === "normal" && this.#ready.low.delete(key)) this.#ready.normal.add(key);
      return; // Q2
    }
    this.#dirty.add(key);
    if (this.#processing.has(key)) return; // Q3: `done` brings it back.
    this.#offer(key, priority);
  }

  addAfter(key: string, ms: number): void {
    if (this.#closed) return;
    if (ms <= 0) {
      this.add(key);
      return;
    }
    const at = performance.now() + ms;
    const former = this.#later.get(key);
    if (former && former.at <= at) return; // Q5
    clearTimeout(former?.timer);
    const timer = setTimeout(() => {
      this.#later.delete(key);
      this.add(key);
    }, ms);
    timer.unref();
    this.#later.set(key, { at, timer });
  }

  /** The next key; undefined once closed. Every key that was taken must be given to `done`. */
  take(): Promise<string | undefined> {
    if (this.#closed) return Promise.resolve(undefined);
    for (const ready of [this.#ready.normal, this.#ready.low]) {
      const [key] = ready;
      if (key === undefined) continue;
      ready.delete(key);
      return Promise.resolve(this.#start(key));
    }
    return new Promise((resolve) => this.#takers.push(resolve));
  }

  done(key: string): void {
    this.#processing.delete(key);
    if (this.#dirty.has(key) && !this.#closed) this.#offer(key, "normal");
  }

  close(): void {
    this.#closed = true;
    for (const { timer } of this.#later.values()) clearTimeout(timer);
    this.#later.clear();
    this.#ready.normal.clear();
    this.#ready.low.clear();
    for (const give of this.#takers.splice(0)) give(undefined);
  }

  #offer(key: string, priority: Priority): void {
    const taker = this.#takers.shift();
    if (taker) taker(this.#start(key));
    else this.#ready[priority].add(key);
  }

  #start(key: string): string {
    this.#dirty.delete(key);
    this.#processing.add(key);
    return key;
  }
}
