// SPDX-License-Identifier: Apache-2.0
import { ApiError } from "../completion/api-error.ts";
import { Session } from "./session.ts";

/** All sessions of a gateway: bounded in number and in idle time (I8). */
export class SessionTable {
  readonly #sessions = new Map<string, Session>();
  readonly #limit: number;
  readonly #idleMs: number;

  constructor(limit: number, idleMs: number) {
    this.#limit = limit;
    this.#idleMs = idleMs;
  }

  get size(): number {
    return this.#sessions.size;
  }

  get(name: string): Session | undefined {
    return this.#sessions.get(name);
  }

  /** The session of that name, made when it is new. @throws ApiError 429 when the table is full of live sessions. */
  open(name: string, nowMs: number): Session {
    let session = this.#sessions.get(name);
    if (session === undefined) {
      if (this.#sessions.size >= this.#limit && this.sweep(nowMs) === 0) throw this.#full();
      session = new Session(name, nowMs);
      this.#sessions.set(name, session);
    }
    session.lastUsedMs = nowMs;
    return session;
  }

  delete(name: string): boolean {
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
      if (matches(session) && this.#sessions.delete(name)) deleted++;
    }
    return deleted;
  }

  #full(): ApiError {
    const message = `all ${this.#limit} sessions are in use; close sessions that have ended (DELETE /s/<session>)`;
    return new ApiError("RESOURCE_EXHAUSTED", "too_many_sessions", message, { retryAfterS: 5 });
  }
}
