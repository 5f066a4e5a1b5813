// SPDX-License-Identifier: Apache-2.0
// H1: at every moment at most one replica owns a session. Ours until we give it away, which cannot be undone; the other's only
// after that, when it takes the second step. H2: a session goes with nothing running, and whoever asks for it meanwhile waits.
import { randomUUID } from "node:crypto";
import { Gate, raceSignal, sleep } from "@whetstone/core";
import type { Logger } from "@whetstone/telemetry";
import type { NewOwner, SessionTable } from "../sessions/session-table.ts";
import type { Session } from "../sessions/session.ts";
import type { SharedBySession } from "../sessions/shared-calls.ts";
import { exportSession } from "./export-session.ts";
import type { HandoverPeers } from "./handover-peers.ts";
import { MAX_STATE_BYTES } from "./session-state.ts";

export interface DepartureDeps {
  readonly sessions: SessionTable;
  readonly shared: SharedBySession;
  /** Undefined: sessions have the time to end, and no other way. */
  readonly peers: HandoverPeers | undefined;
  /** How many requests are being passed on to new owners. */
  readonly forwarding: () => number;
  /** How many sessions another replica is about to give away to this one. */
  readonly arriving: () => number;
  readonly logger: Logger;
  readonly onGone: (outcome: "moved" | "lost") => void;
}

/** How much of the time is past. */
interface DrainTime {
  readonly half: AbortSignal;
  readonly over: AbortSignal;
}

const LOOK_MS = 50;
/** After every replica has refused a session. */
const RETRY_MS = 500;
/** States are large: so many are written and sent at once. */
const MOVES_AT_ONCE = 4;

/** A gateway that is told to end: its sessions go to other replicas, or end here, within the time. */
export class Departure {
  readonly #deps: DepartureDeps;
  readonly #moves = new Gate(MOVES_AT_ONCE);
  readonly #underWay = new Map<string, Promise<void>>();
  #movedWithKeys = false;

  constructor(deps: DepartureDeps) {
    this.#deps = deps;
  }

  async run(drainMs: number): Promise<void> {
    const { sessions, logger } = this.#deps;
    sessions.leave();
    const atFirst = sessions.size;
    const until = performance.now() + drainMs;
    const time = { half: AbortSignal.timeout(Math.ceil(drainMs / 2)), over: AbortSignal.timeout(drainMs) };
    while (this.#isNeeded() && performance.now() < until) {
      this.#startMoves(time);
      await sleep(LOOK_MS);
    }
    await Promise.all(this.#underWay.values());
    if (atFirst > 0) logger.info("sessions_drained", { sessions: atFirst, lost: sessions.size });
  }

  /** An agent with a key may know this replica's address alone: its requests are passed on as long as there is time. */
  #isNeeded(): boolean {
    const { sessions, forwarding, arriving } = this.#deps;
    const isBusy = sessions.size + this.#underWay.size + forwarding() + arriving() > 0;
    return isBusy || this.#movedWithKeys;
  }

  #startMoves(time: DrainTime): void {
    const { peers, sessions } = this.#deps;
    if (peers === undefined || time.over.aborted) return;
    for (const session of sessions.all()) {
      const { name } = session;
      if (this.#underWay.has(name)) continue;
      const move = this.#move(session, peers, time).catch((error: unknown) => {
        this.#deps.logger.error("handover_failed", { session: name, error });
      });
      this.#underWay.set(
        name,
        move.finally(() => this.#underWay.delete(name)),
      );
    }
  }

  /** Tries once; whoever waited for the session finds it here, or knows where it is. */
  async #move(session: Session, peers: HandoverPeers, { half, over }: DrainTime): Promise<void> {
    // Most sessions pause between two calls. One whose calls overlap has to be made to.
    await isIdle(session, half);
    const waiting = Promise.withResolvers<void>();
    session.moving = waiting.promise;
    try {
      if (await isIdle(session, over)) await this.#moves.run(() => this.#handOver(session, peers, over), over);
    } catch (error) {
      if (!over.aborted) throw error;
    } finally {
      session.moving = undefined;
      waiting.resolve();
    }
    if (this.#deps.sessions.get(session.name) === session) await sleep(RETRY_MS, over).catch(() => undefined);
  }

  async #handOver(session: Session, peers: HandoverPeers, over: AbortSignal): Promise<void> {
    const { sessions, shared, logger } = this.#deps;
    const state = exportSession(session, shared.of(session).kept());
    const bytes = Buffer.byteLength(state);
    const { name } = session;
    if (bytes > MAX_STATE_BYTES) {
      logger.warn("session_too_large", { session: name, bytes });
      return;
    }
    const id = randomUUID();
    for (const url of await peers.inTurn()) {
      if (over.aborted) return;
      const { said, agentsUrl } = await peers.hold(url, id, state, over);
      if (said !== "yes") continue;
      // Its policy may have been forgotten meanwhile.
      if (sessions.get(name) !== session) return;
      const owner = { url, agentsUrl };
      await this.#giveAway(session, owner, () => peers.own(url, id, over), over);
      return;
    }
  }

  /** What is given away does not come back: where the other says nothing at all, the session may be there or lost. */
  async #giveAway(
    session: Session,
    owner: NewOwner,
    own: () => Promise<"yes" | "no" | "silent">,
    over: AbortSignal,
  ): Promise<void> {
    const { sessions, logger, onGone } = this.#deps;
    sessions.giveAway(session, owner);
    let said = await own();
    for (; said === "silent" && !over.aborted; said = await own()) await sleep(LOOK_MS);
    if (said === "yes" && session.key !== undefined) this.#movedWithKeys = true;
    onGone(said === "yes" ? "moved" : "lost");
    if (said === "yes") logger.info("session_moved", { session: session.name, to: owner.url });
    else logger.warn("session_lost", { session: session.name, to: owner.url, said });
  }
}

/** Waits for what runs there; false: there was no time for it. */
async function isIdle(session: Session, over: AbortSignal): Promise<boolean> {
  await raceSignal(session.idle(), over).catch(() => undefined);
  return session.running === 0;
}
