// SPDX-License-Identifier: Apache-2.0
import { ApiError } from "../completion/api-error.ts";
import { Session } from "./session.ts";

/** Where a session has gone: the ports of the replica that took it. */
export interface NewOwner {
  /** For our own services. */
  readonly url: string;
  /** For agents; undefined: it has none that others know. */
  readonly agentsUrl: string | undefined;
}

/** All sessions of a gateway: bounded in number and in idle time (I8). */
export class SessionTable {
  readonly #sessions = new Map<string, Session>();
  /** Sessions that this gateway had, by name. Only one that leaves gives any away, so it ends with the process. */
  readonly #moved = new Map<string, NewOwner>();
  /** Names of sessions by their keys. A key lives as long as its session. */
  readonly #names = new Map<string, string>();
  readonly #limit: number;
  readonly #idleMs: number;
  #isLeaving = false;

  constructor(limit: number, idleMs: number) {
    this.#limit = limit;
    this.#idleMs = idleMs;
  }

  get size(): number {
    return this.#sessions.size;
  }

  /** No session begins here any more; those there are go on. */
  get isLeaving(): boolean {
    return this.#isLeaving;
  }

  leave(): void {
    this.#isLeaving = true;
  }

  get(name: string): Session | undefined {
    return this.#sessions.get(name);
  }

  all(): Session[] {
    return [...this.#sessions.values()];
  }

  /** What a key was issued for: a session that is here, or was. */
  nameOf(key: string): string | undefined {
    return this.#names.get(key);
  }

  /** Undefined: it is here, or never was. */
  newOwnerOf(name: string): NewOwner | undefined {
    return this.#moved.get(name);
  }

  /** From now on the session is not this gateway's: whoever asks for it is led there. */
  giveAway(session: Session, owner: NewOwner): void {
    this.#sessions.delete(session.name);
    this.#moved.set(session.name, owner);
  }

  /** Takes a session over that another replica had. @returns false where there is one of its name or with its key */
  adopt(session: Session): boolean {
    const { name, key } = session;
    if (this.#sessions.has(name) || this.#moved.has(name)) return false;
    if (key !== undefined && this.#names.has(key)) return false;
    this.#sessions.set(name, session);
    if (key !== undefined) this.#names.set(key, name);
    return true;
  }

  /** Whether one more session finds room. */
  hasRoom(more: number, nowMs: number): boolean {
    if (this.#sessions.size + more > this.#limit) this.sweep(nowMs);
    return this.#sessions.size + more <= this.#limit;
  }

  /** The session of that name, made when it is new. @throws ApiError 429 when the table is full of live sessions, 503 when this gateway leaves. */
  open(name: string, nowMs: number): Session {
    let session = this.#sessions.get(name);
    if (session === undefined) {
      if (this.#moved.has(name)) throw moved();
      if (this.#isLeaving) throw leaving();
      if (this.#sessions.size >= this.#limit && this.sweep(nowMs) === 0) throw this.#full();
      session = new Session(name, nowMs);
      this.#sessions.set(name, session);
    }
    session.lastUsedMs = nowMs;
    return session;
  }

  /** The key of a session, which is made when it is new. @param random  makes a key that nobody can guess. */
  issueKey(name: string, nowMs: number, random: () => string): string {
    const session = this.open(name, nowMs);
    session.key ??= random();
    this.#names.set(session.key, name);
    return session.key;
  }

  /** The session that a key was issued for; undefined: none, or it has ended. */
  openByKey(key: string, nowMs: number): Session | undefined {
    const name = this.#names.get(key);
    return name === undefined ? undefined : this.open(name, nowMs);
  }

  delete(name: string): boolean {
    const key = this.#sessions.get(name)?.key;
    if (key !== undefined) this.#names.delete(key);
    return this.#sessions.delete(name);
  }

  /** Drops the sessions nobody has used for the idle time; answers how many. */
  sweep(nowMs: number): number {
    return this.#deleteWhere((session) => session.running === 0 && nowMs - session.lastUsedMs > this.#idleMs);
  }

  /** Drops the sessions that used a policy; answers how many. */
  forgetPolicy(policy: string): number {
    return this.#deleteWhere((session) => session.policies.has(policy));
  }

  #deleteWhere(matches: (session: Session) => boolean): number {
    let deleted = 0;
    for (const [name, session] of this.#sessions) {
      if (matches(session) && this.delete(name)) deleted++;
    }
    return deleted;
  }

  #full(): ApiError {
    const message = `all ${this.#limit} sessions are in use; close sessions that have ended (DELETE /s/<session>)`;
    return new ApiError("RESOURCE_EXHAUSTED", "too_many_sessions", message, { retryAfterS: 5 });
  }
}

/** It went while the request came in; the next one is led there. */
function moved(): ApiError {
  const message = "the session has just gone to another gateway: ask again";
  return new ApiError("UNAVAILABLE", "session_moved", message, { retryAfterS: 1 });
}

/** Whoever reads this code (`gateway_leaving`) goes to another replica at once. */
function leaving(): ApiError {
  const message = "this gateway is about to end: open the session at another one";
  return new ApiError("UNAVAILABLE", "gateway_leaving", message, { retryAfterS: 1 });
}
