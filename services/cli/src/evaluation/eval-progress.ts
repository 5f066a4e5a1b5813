// SPDX-License-Identifier: Apache-2.0
/** How an evaluation goes, while it goes. */
import type { Job } from "@whetstone/proto/jobs/v1/jobs";
import { JobPhase } from "@whetstone/proto/jobs/v1/jobs";
import type { EpisodeSummary } from "@whetstone/proto/types/v1/types";

import { isScored } from "./evaluated.ts";
import { formatBar, formatCount, formatNumber, formatSeconds } from "../terminal/format.ts";
import type { Painter } from "../terminal/watch-view.ts";
import { percent, phaseName } from "../terminal/watch-view.ts";

/** The pace is that of the last episodes: an evaluation that was taken up again has some from before. */
const PACE_OVER = 200;

export class EvalProgress {
  /** Episodes in all. Undefined: not known here. */
  readonly #expected: number | undefined;
  readonly #nowMs: () => number;
  readonly #recent: number[] = [];
  #played = 0;
  #scored = 0;
  #correct = 0;
  #reward = 0;
  #job: Job | undefined;

  constructor(expected: number | undefined, nowMs: () => number) {
    this.#expected = expected;
    this.#nowMs = nowMs;
  }

  /** Episodes that are sealed. */
  get played(): number {
    return this.#played;
  }

  setJob(job: Job): void {
    this.#job = job;
  }

  add(summary: EpisodeSummary): void {
    this.#played += 1;
    this.#recent.push(this.#nowMs());
    if (this.#recent.length > PACE_OVER) this.#recent.shift();
    if (!isScored(summary)) return;
    this.#scored += 1;
    this.#reward += summary.reward;
    if (summary.isCorrect) this.#correct += 1;
  }

  /** "120/400 episodes  success 41.7%  reward 0.42  3 voided". */
  line(): string {
    const total = this.#expected === undefined ? "" : `/${formatCount(this.#expected)}`;
    const parts = [`${formatCount(this.#played)}${total} episodes`];
    if (this.#scored > 0) {
      parts.push(`success ${percent(this.#correct / this.#scored)}`);
      parts.push(`reward ${formatNumber(this.#reward / this.#scored)}`);
    }
    if (this.#played > this.#scored) parts.push(`${formatCount(this.#played - this.#scored)} voided`);
    return parts.join("  ");
  }

  screen(columns: number, paint: Painter): string[] {
    const job = this.#job;
    const isRunning = job?.status?.phase === JobPhase.RUNNING;
    const why = isRunning ? "" : [job?.status?.reason, job?.status?.message].filter(Boolean).join(": ");
    const head = `${paint("bold", job?.spec?.name ?? "")}  ${phaseName(job)}  ${paint("dim", why)}`.trimEnd();
    const bar =
      this.#expected === undefined
        ? ""
        : `▕${formatBar(this.#played / this.#expected, Math.max(10, Math.min(30, columns - 70)))}▏ `;
    return [head, `${bar}${this.line()}${this.#left()}`];
  }

  #left(): string {
    const [first, last] = [this.#recent[0], this.#recent.at(-1)];
    if (first === undefined || last === undefined || last - first < 500) return "";
    const perSecond = ((this.#recent.length - 1) / (this.#nowMs() - first)) * 1000;
    const left = this.#expected === undefined ? undefined : (this.#expected - this.#played) / perSecond;
    return `  ${formatNumber(perSecond)}/s${left === undefined || left <= 0 ? "" : `, about ${formatSeconds(left)} left`}`;
  }
}
