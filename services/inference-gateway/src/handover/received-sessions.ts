// SPDX-License-Identifier: Apache-2.0
// Of the two steps of a hand-over the receiver's side. A session that is held is nobody's yet: it answers no call, and whoever
// sent it may keep it after all. Only when the sender says so, having given it away, is it this replica's.
import { ApiError } from "../completion/api-error.ts";
import { Lru } from "../lru.ts";
import type { SessionTable } from "../sessions/session-table.ts";
import type { Session } from "../sessions/session.ts";
import type { KeptAnswer, SharedBySession } from "../sessions/shared-calls.ts";
import { importSession, readState } from "./import-session.ts";

interface Held {
  readonly session: Session;
  readonly kept: readonly KeptAnswer[];
  readonly timer: NodeJS.Timeout;
}

export interface ReceivedSessionsDeps {
  readonly sessions: SessionTable;
  readonly shared: SharedBySession;
  readonly now: () => number;
  /** Whether calls of a policy can be answered here. */
  readonly knows: (policy: string) => boolean;
  readonly onOwned: (session: Session) => void;
  /** How long one is held that nobody gives away. Default 30,000. */
  readonly holdMs?: number;
}

/** Each may be as large as a request of a hand-over: more at once are refused. */
const MAX_HELD = 32;
const HOLD_MS = 30_000;
const MAX_REMEMBERED = 20_000;

/** Sessions that other replicas hand over. */
export class ReceivedSessions implements Disposable {
  readonly #deps: ReceivedSessionsDeps;
  readonly #held = new Map<string, Held>();
  /** Hand-overs that are done: an answer may have been lost. */
  readonly #owned = new Lru<string, true>(MAX_REMEMBERED);

  constructor(deps: ReceivedSessionsDeps) {
    this.#deps = deps;
  }

  /** How many are held. */
  get size(): number {
    return this.#held.size;
  }

  /** The first step; repeated it changes nothing. @param id  of the hand-over. @throws ApiError: it is not held */
  hold(id: string, body: unknown): void {
    const { sessions, now, knows, holdMs = HOLD_MS } = this.#deps;
    if (this.#held.has(id) || this.#owned.get(id) !== undefined) return;
    if (sessions.isLeaving) throw refused("UNAVAILABLE", "gateway_leaving", "this gateway is about to end, too");
    const state = readState(body);
    const { name } = state;
    if (sessions.get(name) !== undefined)
      throw refused("CONFLICT", "session_exists", `session ${name} is here already`);
    const missing = state.policies.find((policy) => !knows(policy));
    if (missing !== undefined) throw refused("UNAVAILABLE", "unknown_policy", `no engine was given ${missing} yet`);
    if (this.#held.size >= MAX_HELD || !sessions.hasRoom(this.#held.size + 1, now()))
      throw refused("RESOURCE_EXHAUSTED", "too_many_sessions", "there is no room for another session");
    const timer = setTimeout(() => this.#held.delete(id), holdMs).unref();
    this.#held.set(id, { ...importSession(state, now()), timer });
  }

  /** The second step; repeated it changes nothing. @throws ApiError 404 where it is not held, 422 where another has its name */
  own(id: string): void {
    if (this.#owned.get(id) !== undefined) return;
    const held = this.#held.get(id);
    if (held === undefined) throw refused("NOT_FOUND", "not_held", "no session of this hand-over is held here");
    clearTimeout(held.timer);
    this.#held.delete(id);
    const { session, kept } = held;
    const { name } = session;
    if (!this.#deps.sessions.adopt(session))
      throw refused("CONFLICT", "session_exists", `session ${name} is here already`);
    for (const answer of kept) this.#deps.shared.of(session).keep(answer);
    this.#owned.set(id, true);
    this.#deps.onOwned(session);
  }

  [Symbol.dispose](): void {
    for (const { timer } of this.#held.values()) clearTimeout(timer);
    this.#held.clear();
  }
}

function refused(
  code: "UNAVAILABLE" | "CONFLICT" | "RESOURCE_EXHAUSTED" | "NOT_FOUND",
  reason: string,
  message: string,
) {
  return new ApiError(code, reason, message);
}
