// SPDX-License-Identifier: Apache-2.0
import type { Metrics } from "@whetstone/telemetry";
import type { ErrorCode } from "./session-answers.ts";
import type { Slots } from "./slots.ts";

export interface RunnerMetrics {
  step(): void;
  session(end: SessionEnd): void;
  /** The process of a job's own code ended unasked. */
  moduleEnd(code: string): void;
}

/** How a session ended. */
export type SessionEnd = "closed" | "left" | "full" | ErrorCode;

export function runnerMetrics(metrics: Metrics, slots: Slots): RunnerMetrics {
  metrics.gaugeOf("env_slots_used", "Sessions open now.", () => slots.used);
  metrics.gaugeOf("env_slots", "Sessions that may be open at once.", () => slots.total);
  const steps = metrics.counter("env_steps_total", "Steps taken.");
  const sessions = metrics.counter("env_sessions_total", "Sessions by how they ended.", ["end"]);
  const moduleEnds = metrics.counter(
    "module_process_ends_total",
    "Processes of jobs' own code that ended unasked, by why.",
    ["code"],
  );
  return {
    moduleEnd: (code) => {
      moduleEnds.inc({ code });
    },
    step: () => {
      steps.inc();
    },
    session: (end) => {
      sessions.inc({ end });
    },
  };
}
