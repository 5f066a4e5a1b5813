// SPDX-License-Identifier: Apache-2.0
// The env-runners of a pool as one orchestrator sees them. R1: a runner that drains gets nothing new. R2: the least loaded goes
// first, by our own count and by what others told of theirs. R3: the limit is what all runners that take sessions hold, less
// what others have there; what we have on runners that go takes nothing from those that stay.

export interface Runner {
  readonly id: string;
  /** "host:port" */
  readonly address: string;
  readonly slots: number;
  readonly draining: boolean;
}

export type Loads = ReadonlyMap<string, number>;

/** A place of one episode; disposing it frees it. */
export interface RunnerLease extends Disposable {
  /** Best first, at least one. */
  readonly addresses: readonly string[];
}

/** Runners that an episode may try: more than a few that are full or gone at once are told of soon enough. */
const CANDIDATES = 4;
/** Reports older than this come from an orchestrator that is gone. */
const REPORT_MS = 10_000;

interface Live {
  readonly runner: Runner;
  load: number;
}

export class RunnerSet {
  readonly #onLimit: (limit: number) => void;
  readonly #ours = new Map<string, number>();
  readonly #reports = new Map<string, { readonly atMs: number; readonly loads: Loads }>();
  #runners: readonly Runner[] = [];
  #live: Live[] = [];
  #liveById = new Map<string, Live>();
  #limit = 0;
  #turn = 0;

  /** @param onLimit  told of each change of `limit` */
  constructor(onLimit: (limit: number) => void) {
    this.#onLimit = onLimit;
  }

  /** Sessions that we may have. */
  get limit(): number {
    return this.#limit;
  }

  /** Some runner takes sessions. */
  get isOpen(): boolean {
    return this.#live.length > 0;
  }

  /** Sessions that we have, by runner. */
  get ours(): Loads {
    return this.#ours;
  }

  update(runners: readonly Runner[]): void {
    this.#runners = runners;
    this.#rebuild();
  }

  /** What another orchestrator has open. */
  report(orchestrator: string, loads: Loads, nowMs: number): void {
    this.#reports.set(orchestrator, { atMs: nowMs, loads });
    for (const [name, { atMs }] of this.#reports) if (nowMs - atMs > REPORT_MS) this.#reports.delete(name);
    this.#rebuild();
  }

  /** Undefined: no runner takes sessions. */
  lease(): RunnerLease | undefined {
    const best = this.#best();
    const [first] = best;
    if (first === undefined) return undefined;
    const { id } = first.runner;
    this.#add(id, 1);
    let held = true;
    return {
      addresses: best.map(({ runner }) => runner.address),
      [Symbol.dispose]: () => {
        if (held) this.#add(id, -1);
        held = false;
      },
    };
  }

  #rebuild(): void {
    const others = new Map<string, number>();
    for (const { loads } of this.#reports.values())
      for (const [id, count] of loads) others.set(id, (others.get(id) ?? 0) + count);
    this.#live = this.#runners
      .filter(({ draining, slots }) => !draining && slots > 0)
      .map((runner) => ({ runner, load: (others.get(runner.id) ?? 0) + (this.#ours.get(runner.id) ?? 0) }));
    this.#liveById = new Map(this.#live.map((entry) => [entry.runner.id, entry]));
    this.#setLimit();
  }

  /** R3 */
  #setLimit(): void {
    let limit = 0;
    for (const { runner, load } of this.#live)
      limit += Math.max(0, runner.slots - load) + (this.#ours.get(runner.id) ?? 0);
    for (const [id, count] of this.#ours) if (!this.#liveById.has(id)) limit += count;
    if (limit === this.#limit) return;
    this.#limit = limit;
    this.#onLimit(limit);
  }

  #add(id: string, change: 1 | -1): void {
    const count = (this.#ours.get(id) ?? 0) + change;
    if (count === 0) this.#ours.delete(id);
    else this.#ours.set(id, count);
    const live = this.#liveById.get(id);
    if (live === undefined) this.#setLimit();
    else live.load += change;
  }

  /** R2. Starts elsewhere each time, so that equals take turns and idle ones are found at once. */
  #best(): Live[] {
    const best: Live[] = [];
    const count = this.#live.length;
    this.#turn = count === 0 ? 0 : (this.#turn + 1) % count;
    for (let i = 0; i < count; i += 1) {
      const entry = this.#live[(this.#turn + i) % count] as Live;
      insert(best, entry);
      if (best.length === CANDIDATES && best.at(-1)?.load === 0) break;
    }
    return best;
  }
}

/** Keeps the list short and sorted; equals stay in order. */
function insert(best: Live[], entry: Live): void {
  const at = best.findIndex((other) => shareOf(entry) < shareOf(other));
  if (at === -1 && best.length >= CANDIDATES) return;
  best.splice(at === -1 ? best.length : at, 0, entry);
  if (best.length > CANDIDATES) best.pop();
}

function shareOf({ runner, load }: Live): number {
  return load / runner.slots;
}
