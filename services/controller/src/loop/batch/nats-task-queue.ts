// SPDX-License-Identifier: Apache-2.0
import { inTurns, sleep, WhetstoneError } from "@whetstone/core";
import { episodeTaskSubject, isOutage, type Nats, purgeTasks, type TypedStreams } from "@whetstone/messaging";
import { type RolloutTask, RolloutTaskSchema } from "@whetstone/proto/events/v1/events";
import type { TaskQueue } from "../ports.ts";
import type { Authority } from "../../leading/lead.ts";

const PUBLISHING_AT_ONCE = 64;
const FULL_RETRY_MS = 200;

/**
 * The TASK stream of one job. A task's subject holds at most one message, so publishing what is queued or in flight already
 * changes nothing: after a crash the same tasks are simply published again.
 */
export class NatsTaskQueue implements TaskQueue {
  readonly #nats: Nats;
  readonly #streams: TypedStreams;
  readonly #job: string;
  readonly #lead: Pick<Authority, "assert"> | undefined;

  /** @param lead  asked before every message. */
  constructor(nats: Nats, streams: TypedStreams, job: string, lead?: Pick<Authority, "assert">) {
    this.#lead = lead;
    this.#nats = nats;
    this.#streams = streams;
    this.#job = job;
  }

  async publish(tasks: AsyncIterable<RolloutTask>, signal: AbortSignal): Promise<void> {
    const source = inTurns(tasks, PUBLISHING_AT_ONCE);
    let failed = false;
    const carry = async (): Promise<void> => {
      try {
        for (let next = await source.next(); !next.done && !failed; next = await source.next())
          await this.#publishOne(next.value, signal);
      } catch (error) {
        failed = true;
        throw error;
      }
    };
    await Promise.all(Array.from({ length: PUBLISHING_AT_ONCE }, carry));
  }

  async purge(): Promise<void> {
    this.#lead?.assert();
    await purgeTasks(this.#nats, this.#job);
  }

  async #publishOne(task: RolloutTask, signal: AbortSignal): Promise<void> {
    const subject = episodeTaskSubject(this.#job, task.group, task.sample, task.environment?.pool);
    for (;;) {
      this.#lead?.assert();
      try {
        await this.#streams.publish(subject, RolloutTaskSchema, task, { firstOnSubject: true, signal });
        return;
      } catch (error) {
        // A full queue is back pressure (I8): wait until orchestrators have taken some. An outage is waited out.
        const full = WhetstoneError.from(error).code === "RESOURCE_EXHAUSTED";
        if (signal.aborted || !(full || isOutage(error))) throw error;
        await sleep(FULL_RETRY_MS, signal);
      }
    }
  }
}
