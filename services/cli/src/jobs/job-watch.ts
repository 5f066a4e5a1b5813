// SPDX-License-Identifier: Apache-2.0
/** Follows a job through both of its streams, over restarts of the controller. */
import { WhetstoneError, isAbort, sleep } from "@whetstone/core";
import { jobState } from "@whetstone/messaging/jobs";
import type { Job, StepRecord, ValidationResult } from "@whetstone/proto/jobs/v1/jobs";

import type { JobClient } from "../connect/clients.ts";

export interface WatchEvents {
  readonly job: (job: Job) => void;
  readonly step: (step: StepRecord) => void;
  readonly validation: (result: ValidationResult) => void;
  /** The connection was lost and will be tried again. */
  readonly lost: (error: WhetstoneError) => void;
}

/** The controller is started again within seconds; one that stays away this long is gone. */
const GIVE_UP_AFTER_MS = 60_000;
/** The last metrics may come after the last change of the job. */
const LAST_METRICS_MS = 2_000;

/**
 * Resolves with the finished job. Throws when aborted, when the job is unknown, or when the controller stays away.
 * Every step and validation is reported once, past ones first.
 */
export async function followJob(
  client: JobClient,
  name: string,
  events: WatchEvents,
  signal: AbortSignal,
): Promise<Job> {
  const over = new AbortController();
  const both = AbortSignal.any([signal, over.signal]);
  const metrics = followMetrics(client, name, events, both).catch((error: unknown) => {
    if (!isAbort(error)) over.abort(error);
  });
  try {
    const job = await followPhases(client, name, events, both);
    await Promise.race([metrics, sleep(LAST_METRICS_MS, signal)]);
    return job;
  } finally {
    over.abort();
    await metrics;
  }
}

async function followPhases(client: JobClient, name: string, events: WatchEvents, signal: AbortSignal): Promise<Job> {
  let last: Job | undefined;
  return keepTrying(events, signal, async (alive) => {
    for await (const { job } of client.watchJob({ name }, { signal })) {
      alive();
      if (!job) continue;
      last = job;
      events.job(job);
      if (jobState(job).kind === "ended") return job;
    }
    if (last && jobState(last).kind === "ended") return last;
    throw new WhetstoneError("UNAVAILABLE", "the controller ended the stream");
  });
}

async function followMetrics(client: JobClient, name: string, events: WatchEvents, signal: AbortSignal): Promise<void> {
  let fromStep = 0;
  const seen = new Set<string>();
  const quiet = { ...events, lost: () => {} };
  await keepTrying(quiet, signal, async (alive) => {
    for await (const { event } of client.streamMetrics({ name, fromStep, follow: true }, { signal })) {
      alive();
      if (event.case === "step" && event.value.step >= fromStep) {
        fromStep = event.value.step + 1;
        events.step(event.value);
      }
      if (event.case === "validation") reportOnce(event.value, seen, events);
    }
  });
}

function reportOnce(result: ValidationResult, seen: Set<string>, events: WatchEvents): void {
  const key = `${result.step} ${result.variant}`;
  if (seen.has(key)) return;
  seen.add(key);
  events.validation(result);
}

/** Repeats a stream that broke off for a reason that passes. `alive()` says that it has answered. */
export async function keepTrying<T>(
  events: Pick<WatchEvents, "lost">,
  signal: AbortSignal,
  attempt: (alive: () => void) => Promise<T>,
): Promise<T> {
  let lostAt: number | undefined;
  let tries = 0;
  for (;;) {
    try {
      return await attempt(() => {
        lostAt = undefined;
        tries = 0;
      });
    } catch (thrown) {
      const error = WhetstoneError.from(thrown);
      signal.throwIfAborted();
      lostAt ??= performance.now();
      if (error.code !== "UNAVAILABLE" || performance.now() - lostAt > GIVE_UP_AFTER_MS) throw error;
      if (tries === 0) events.lost(error);
      await sleep(Math.min(2_000, 100 * 2 ** tries), signal);
      tries += 1;
    }
  }
}
