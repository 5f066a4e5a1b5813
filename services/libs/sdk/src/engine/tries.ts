// SPDX-License-Identifier: Apache-2.0
import { type Clock, Deadline } from "@whetstone/core";
import { type Failure, isRetried } from "../failure.ts";
import type { EpisodeRequest, EpisodeRun } from "./options.ts";
import { loopShare } from "./loop-share.ts";

/** What the loop must know of a try. */
export interface TryResult {
  readonly failure: Failure;
  readonly modelMs: number;
  readonly environmentMs: number;
}

export interface TryLimits {
  readonly clock: Clock;
  /** The one deadline of all tries. */
  readonly trajectoryTimeoutMs: number;
  readonly retryLimit: number;
}

/** Where an episode's time went, over all its tries. */
export interface Ledger {
  readonly startedAtMs: number;
  /** Of the clock's monotonic time. */
  readonly startedAt: number;
  modelMs: number;
  environmentMs: number;
  waitingMs: number;
}

export interface Tries<R> {
  /** Of the last try; the others do not count. */
  readonly result: R;
  readonly ledger: Ledger;
  readonly tries: number;
}

const FIRST_PAUSE_MS = 500;
const LONGEST_PAUSE_MS = 5_000;

/** Plays until a try ends for good: by its result, by a failure that a retry cannot mend, or by the retry limit. */
export async function playTries<R extends TryResult>(
  limits: TryLimits,
  request: EpisodeRequest,
  signal: AbortSignal | undefined,
  attempt: (run: EpisodeRun) => Promise<R>,
): Promise<Tries<R>> {
  const { clock, trajectoryTimeoutMs, retryLimit } = limits;
  const turn = loopShare.start();
  if (turn !== undefined) await turn;
  const times = { startedAtMs: clock.now(), startedAt: clock.monotonicMs() };
  const ledger = { ...times, modelMs: 0, environmentMs: 0, waitingMs: 0 };
  using deadline = Deadline.after(trajectoryTimeoutMs, signal);
  const clockOfRun = { signal: deadline.signal, remainingMs: () => deadline.remainingMs() };
  for (let tries = 1; ; tries += 1) {
    const result = await attempt({ ...request, ...clockOfRun, try: tries });
    ledger.modelMs += result.modelMs;
    ledger.environmentMs += result.environmentMs;
    const again =
      tries <= retryLimit && isRetried(result.failure.class) && (await pause(clock, tries, ledger, deadline));
    if (!again) return { result, ledger, tries };
  }
}

/** @returns false when the deadline or a cancel came first: the failure that led here stays the result. */
async function pause(clock: Clock, tries: number, ledger: Ledger, deadline: Deadline): Promise<boolean> {
  const startedAt = clock.monotonicMs();
  const ms = Math.min(LONGEST_PAUSE_MS, FIRST_PAUSE_MS * 2 ** (tries - 1));
  const slept = await clock.sleep(ms, deadline.signal).then(
    () => true,
    () => false,
  );
  ledger.waitingMs += clock.monotonicMs() - startedAt;
  return slept;
}
