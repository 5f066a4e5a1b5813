// SPDX-License-Identifier: Apache-2.0
import { exponentialBackoff, sleep, WhetstoneError } from "@whetstone/core";
import { PullWindow, type Task, taskStream, taskSubject, type TypedStreams } from "@whetstone/messaging";
import { type RolloutTask, RolloutTaskSchema } from "@whetstone/proto/events/v1/events";
import type { Episode } from "@whetstone/proto/types/v1/types";
import type { Logger } from "@whetstone/telemetry";
import type { OrchestratorConfig } from "../config.ts";
import type { Delivery } from "./delivery.ts";
import type { OrchestratorMetrics } from "../service/metrics.ts";
import type { FairGate } from "../slots/fair-gate.ts";
import { sealUnplayed, sealWithoutRoom } from "../seal/seal.ts";
import { publishEpisode } from "../seal/episode-publisher.ts";
import type { JobActivity } from "./job-watch.ts";
import type { Pool } from "../environments/pools.ts";

// D1: a task is acknowledged only after its episode is in the stream. D2: every task that was taken is settled: ack when
// sealed, nak when its job pauses or this process goes, term when its job has ended. D3: never more than maxEpisodes play.
// D4: a task is played at most maxDeliver times; then it is sealed as failed, so that no batch waits for it for ever.
// D5: beside what plays, only a few tasks are taken, enough that a free slot finds one: the others stay where another
// replica can take them, and do not age here. D6: where a pool has no env-runner that takes sessions, no task is taken; those
// that were taken wait here, outside any slot. D7: an episode that its env-runner handed back is played again here, as the same
// delivery: it costs neither a retry nor a delivery. D8: so is one that no env-runner had room for, which waits outside any slot
// meanwhile; after `roomTimeoutMs` it is sealed as failed.

export interface TaskPullerDeps {
  readonly streams: TypedStreams;
  readonly config: Pick<OrchestratorConfig, "ackWaitMs" | "maxDeliver" | "roomTimeoutMs">;
  /** Shared by the pullers of all jobs (D3). */
  readonly gate: FairGate;
  /** Resolves when the server has got all that was sent; never rejects. */
  readonly flush: () => Promise<void>;
  readonly play: (delivery: Delivery, signal: AbortSignal) => Promise<Episode>;
  readonly metrics: OrchestratorMetrics;
  readonly logger: Logger;
}

export interface PulledJob {
  readonly name: string;
  /** Name of its pool. */
  readonly poolName: string;
  readonly pool: Pool;
  /** It plays in environments: a task needs room in the pool before it gets a slot. */
  readonly needsRoom: boolean;
}

/** One of the times that a delivery is played, by milliseconds of `performance`. */
interface Turn {
  readonly replay: number;
  readonly takenAt: number;
  /** Undefined: there was room, as far as is known. */
  readonly noRoomSince: number | undefined;
}

/** Takes one job's tasks while the job runs. */
export class TaskPuller {
  readonly #deps: TaskPullerDeps;
  readonly #job: string;
  readonly #poolName: string;
  readonly #pool: Pool | undefined;
  readonly #unlisten: () => void;
  readonly #stopPulling = new AbortController();
  readonly #stop = new AbortController();
  readonly #running = new Set<Promise<void>>();
  readonly #window: PullWindow;
  readonly #pulling: Promise<void>;
  #after: Exclude<JobActivity, "play"> = "pause";

  constructor(deps: TaskPullerDeps, { name, poolName, pool, needsRoom }: PulledJob) {
    this.#deps = { ...deps, logger: deps.logger.child({ job: name }) };
    this.#job = name;
    this.#poolName = poolName;
    this.#pool = needsRoom ? pool : undefined;
    this.#window = new PullWindow(this.#wanted());
    this.#unlisten =
      this.#pool?.onChange(() => {
        this.#window.resize(this.#wanted());
      }) ?? (() => undefined);
    this.#pulling = this.#pullForEver();
  }

  /** Aborts what plays and settles it (D2). Pulling ends first: what is handed back must not come here again. */
  async close(after: Exclude<JobActivity, "play">): Promise<void> {
    const reason = new WhetstoneError("CANCELLED", `job ${this.#job} is not running here any more`);
    this.#after = after;
    this.#unlisten();
    this.#stopPulling.abort(reason);
    await this.#pulling;
    await this.#deps.flush();
    this.#stop.abort(reason);
    await Promise.all(this.#running);
    this.#deps.gate.forget(this.#job);
    this.#pool?.forget(this.#job);
  }

  /** D5, D6 */
  #wanted(): number {
    const { gate } = this.#deps;
    if (this.#pool?.isOpen === false) return 0;
    return gate.activeOf(this.#job) + Math.max(LEAST_AHEAD, Math.ceil(gate.limit * AHEAD));
  }

  async #pull(): Promise<void> {
    const { streams, config } = this.#deps;
    const { signal } = this.#stopPulling;
    const pool = this.#poolName;
    const tasks = streams.pullTasks({
      stream: taskStream(this.#job),
      durable: `orchestrator-${pool}`,
      filterSubject: `${taskSubject(this.#job, pool)}.>`,
      schema: RolloutTaskSchema,
      maxInFlight: this.#window,
      ackWaitMs: config.ackWaitMs,
      keepAliveMs: Math.floor(config.ackWaitMs / 3),
      maxDeliver: SERVER_DELIVERIES,
      signal,
    });
    for await (const task of tasks) this.#start(task);
  }

  /** The stream may not be there yet, or be made anew: as long as the job runs, it is looked for again. */
  async #pullForEver(): Promise<void> {
    const { signal } = this.#stopPulling;
    while (!signal.aborted) {
      try {
        await this.#pull();
      } catch (error) {
        if (signal.aborted) return;
        this.#deps.logger.warn("task_stream_lost", { error });
        await sleep(STREAM_RETRY_MS, signal).catch(() => undefined);
      }
    }
  }

  #start(task: Task<RolloutTask>): void {
    const work = this.#handle(task).finally(() => this.#running.delete(work));
    this.#running.add(work);
  }

  async #handle(task: Task<RolloutTask>): Promise<void> {
    const { logger, metrics } = this.#deps;
    try {
      await this.#inSlot(task);
    } catch (error) {
      if (!this.#stop.signal.aborted) {
        metrics.lost();
        logger.error("episode_not_sealed", { episodeId: task.message.episodeId, error });
      }
      this.#giveBack(task);
    } finally {
      this.#window.resize(this.#wanted());
    }
  }

  /** D7, D8: until it was played to an end. */
  async #inSlot(task: Task<RolloutTask>): Promise<void> {
    const takenAt = performance.now();
    let noRoomSince: number | undefined;
    for (let moves = 0; ; moves += 1) {
      try {
        await this.#inRoom(task, { replay: moves * REPLAYS_BETWEEN, takenAt, noRoomSince });
        return;
      } catch (thrown) {
        const error = WhetstoneError.from(thrown);
        if (error.code !== "HANDED_BACK") throw thrown;
        this.#deps.metrics.handedBack();
        noRoomSince = error.retry === "later" ? (noRoomSince ?? performance.now()) : undefined;
        await sleep(MOVE_BACKOFF(moves + 1), this.#stop.signal);
      }
    }
  }

  /** Not within the loop: bundled for older engines, `using` in a loop throws again what an earlier turn threw. */
  async #inRoom(task: Task<RolloutTask>, { replay, takenAt, noRoomSince }: Turn): Promise<void> {
    using _room = await this.#pool?.enter(this.#job, this.#stop.signal);
    using _slot = await this.#deps.gate.acquire(this.#job, this.#stop.signal);
    this.#window.resize(this.#wanted());
    const now = performance.now();
    const delivery = { task: task.message, attempt: task.attempt, replay };
    const withoutRoomMs = noRoomSince === undefined ? 0 : now - noRoomSince;
    await this.#playAndSeal(task, { ...delivery, waitingMs: now - takenAt, withoutRoomMs });
  }

  async #playAndSeal(task: Task<RolloutTask>, delivery: Delivery): Promise<void> {
    const { streams, metrics, logger } = this.#deps;
    const { signal } = this.#stop;
    const episode = await this.#play(delivery);
    const { duplicate } = await publishEpisode(streams, episode, signal, logger);
    metrics.sealed(episode, duplicate);
    await task.ack(); // D1
  }

  /** D4, D8 */
  async #play(delivery: Delivery): Promise<Episode> {
    const { config, play } = this.#deps;
    if (delivery.attempt > config.maxDeliver) return sealUnplayed(delivery, Date.now());
    if ((delivery.withoutRoomMs ?? 0) > config.roomTimeoutMs) return sealWithoutRoom(delivery, Date.now());
    return play(delivery, this.#stop.signal);
  }

  /** D2. The delay keeps a task that this process cannot seal from spinning. */
  #giveBack(task: Task<RolloutTask>): void {
    if (this.#after === "end" && this.#stop.signal.aborted) task.term();
    else task.nak(this.#stop.signal.aborted ? 0 : NOT_SEALED_DELAY_MS);
  }
}

/** Of an episode that was handed back. */
const MOVE_BACKOFF = exponentialBackoff({ initialMs: 50, maxMs: 5_000 });
/** Further than any play counts by itself: no two plays share a gateway session. */
const REPLAYS_BETWEEN = 1_000;
/** Tasks taken ahead of a slot, as a share of the open slots, and at least. */
const AHEAD = 1 / 8;
const LEAST_AHEAD = 16;
const NOT_SEALED_DELAY_MS = 2_000;
const STREAM_RETRY_MS = 500;
/** The server itself gives up later than we do: what it gives up is lost to everyone. */
const SERVER_DELIVERIES = 1_000;
