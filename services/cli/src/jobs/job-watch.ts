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
/** How often a job is asked for beside its stream: whoever waits for its end must not hang on a change that was never told. */
const LOOK_EVERY_MS = 15_000;
const ANSWER_MS = 10_000;
/** The last metrics may come after the last change of the job, each within this time of the one before. */
const LAST_METRICS_MS = 2_000;

/**
 * Resolves with the finished job. Throws when aborted, when the job is unknown, or when the controller stays away.
 * Every step and validation is reported once, past ones first.
 */
export async function followJob(
  client: JobClient,
  name: string,
  events: WatchEvents & { readonly lookEveryMs?: number },
  signal: AbortSignal,
): Promise<Job> {
  const over = new AbortController();
  const both = AbortSignal.any([signal, over.signal]);
  const seen = { nextStep: 0, validations: new Set<string>(), at: performance.now() };
  const metrics = followMetrics(client, name, { events, seen }, both).catch((error: unknown) => {
    if (!isAbort(error)) over.abort(error);
  });
  try {
    const job = await Promise.race([
      followPhases(client, name, events, both),
      lookUntilEnded(client, name, { events, everyMs: events.lookEveryMs ?? LOOK_EVERY_MS }, both),
    ]);
    seen.at = performance.now();
    await Promise.race([metrics, quiet(seen, both)]);
    // One that was finished while the connection was lost belongs to a step that is past.
    for (const validation of job.status?.validations ?? []) reportOnce(validation, seen, events);
    return job;
  } finally {
    over.abort();
    await metrics;
  }
}

interface Seen {
  nextStep: number;
  readonly validations: Set<string>;
  /** When the last one came. */
  at: number;
}

/** Resolves when nothing has come for LAST_METRICS_MS: the past of a long job takes longer than that to tell. */
async function quiet(seen: Seen, signal: AbortSignal): Promise<void> {
  for (;;) {
    const left = seen.at + LAST_METRICS_MS - performance.now();
    if (left <= 0) return;
    await sleep(left, signal);
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

async function lookUntilEnded(
  client: JobClient,
  name: string,
  { events, everyMs }: { readonly events: WatchEvents; readonly everyMs: number },
  signal: AbortSignal,
): Promise<Job> {
  for (;;) {
    await sleep(everyMs, signal);
    const { job } = await client.getJob({ name }, { signal, deadlineMs: ANSWER_MS }).catch(() => ({ job: undefined }));
    if (!job || jobState(job).kind !== "ended") continue;
    events.job(job);
    return job;
  }
}

/** A lost connection is the job's stream's to report. */
async function followMetrics(
  client: JobClient,
  name: string,
  { events, seen }: { readonly events: WatchEvents; readonly seen: Seen },
  signal: AbortSignal,
): Promise<void> {
  await keepTrying({ lost: () => {} }, signal, async (alive) => {
    const request = { name, fromStep: seen.nextStep, follow: true };
    for await (const { event } of client.streamMetrics(request, { signal })) {
      alive();
      seen.at = performance.now();
      if (event.case === "step" && event.value.step >= seen.nextStep) {
        seen.nextStep = event.value.step + 1;
        events.step(event.value);
      }
      if (event.case === "validation") reportOnce(event.value, seen, events);
    }
  });
}

function reportOnce(result: ValidationResult, seen: Seen, events: WatchEvents): void {
  const key = `${result.step} ${result.variant}`;
  if (seen.validations.has(key)) return;
  seen.validations.add(key);
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
