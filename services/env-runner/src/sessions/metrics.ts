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
export type SessionEnd = "closed" | "left" | ErrorCode;

export function runnerMetrics(metrics: Metrics, slots: Slots): RunnerMetrics {
  metrics.gauge({ name: "env_slots_used", help: "Sessions open now.", read: () => slots.used });
  metrics.gauge({ name: "env_slots", help: "Sessions that may be open at once.", read: () => slots.total });
  const steps = metrics.counter({ name: "env_steps_total", help: "Steps taken." });
  const sessions = metrics.counter({
    name: "env_sessions_total",
    help: "Sessions by how they ended.",
    labels: ["end"],
  });
  const moduleEnds = metrics.counter({
    name: "module_process_ends_total",
    help: "Processes of jobs' own code that ended unasked, by why.",
    labels: ["code"],
  });
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
