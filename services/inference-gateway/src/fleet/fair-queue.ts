// SPDX-License-Identifier: Apache-2.0

/** Whose call it is. */
export interface Caller {
  readonly job: string;
  /** "": of none. */
  readonly session: string;
}

/** Whose calls a session's are: sessions of a job's episodes are called "<job>.…", one that somebody named is its own. */
export function callerOf(session: string | undefined): Caller {
  if (session === undefined) return { job: "", session: "" };
  return { job: session.split(".", 1)[0] ?? "", session };
}

interface Waiting {
  readonly caller: Caller;
}

type Sessions<Item> = Map<string, Set<Item>>;

/**
 * Who waits, so that nobody waits longer because another has more calls: the job with the fewest calls running is served first,
 * in it the sessions in turns, in those the calls in order of arrival.
 */
export class FairQueue<Item extends Waiting> implements Iterable<Item> {
  readonly #jobs = new Map<string, Sessions<Item>>();
  readonly #sizes = new Map<string, number>();
  #size = 0;

  get size(): number {
    return this.#size;
  }

  ofJob({ job }: Caller): number {
    return this.#sizes.get(job) ?? 0;
  }

  ofSession({ job, session }: Caller): number {
    return this.#jobs.get(job)?.get(session)?.size ?? 0;
  }

  add(item: Item): void {
    const { job, session } = item.caller;
    const sessions = this.#jobs.get(job) ?? new Map<string, Set<Item>>();
    this.#jobs.set(job, sessions);
    sessions.set(session, (sessions.get(session) ?? new Set<Item>()).add(item));
    this.#count(job, 1);
  }

  /** Takes out one that left, or was served: then others of its job, and of its length of line, come before it. */
  delete(item: Item): void {
    const { job, session } = item.caller;
    const sessions = this.#jobs.get(job);
    const items = sessions?.get(session);
    if (sessions === undefined || items?.delete(item) !== true) return;
    this.#count(job, -1);
    moveBack(sessions, session, items);
    moveBack(this.#jobs, job, sessions);
  }

  /** In the order in which they are to be served. Whoever is deleted meanwhile counts as served. @param running  how many calls of a job run */
  *inTurn(running: (job: string) => number): Generator<Item> {
    const begun = new Map<string, Generator<Item>>();
    const ended = new Set<string>();
    for (let next = this.#idlest(running, ended); next !== undefined; next = this.#idlest(running, ended)) {
      const [job, sessions] = next;
      const calls = begun.get(job) ?? inTurns(sessions);
      begun.set(job, calls);
      const turn = calls.next();
      if (turn.done === true) ended.add(job);
      else yield turn.value;
    }
  }

  /** Looks no further than it must: who opens sessions by hand makes a job of each. */
  #idlest(running: (job: string) => number, ended: ReadonlySet<string>): [string, Sessions<Item>] | undefined {
    let [found, fewest]: [[string, Sessions<Item>] | undefined, number] = [undefined, Infinity];
    for (const entry of this.#jobs) {
      if (ended.has(entry[0])) continue;
      const count = running(entry[0]);
      if (count < fewest) [found, fewest] = [entry, count];
      if (fewest === 0) break;
    }
    return found;
  }

  *[Symbol.iterator](): Generator<Item> {
    for (const sessions of this.#jobs.values()) for (const items of sessions.values()) yield* items;
  }

  #count(job: string, change: number): void {
    this.#size += change;
    const size = (this.#sizes.get(job) ?? 0) + change;
    if (size > 0) this.#sizes.set(job, size);
    else this.#sizes.delete(job);
  }
}

/** A session that is served goes behind the others of its job, where the map's own order comes to it again. */
function* inTurns<Item>(sessions: Sessions<Item>): Generator<Item> {
  for (const items of sessions.values())
    for (const item of items) {
      yield item;
      if (!items.has(item)) break;
    }
}

function moveBack<Value extends { readonly size: number }>(map: Map<string, Value>, key: string, value: Value): void {
  map.delete(key);
  if (value.size > 0) map.set(key, value);
}
