// SPDX-License-Identifier: Apache-2.0
import type { Metrics } from "@whetstone/telemetry";
import type { Slots } from "./slots.ts";

export interface RunnerMetrics {
  step(): void;
  session(end: SessionEnd): void;
}

/** How a session ended. */
export type SessionEnd = "closed" | "left" | "TASK" | "ENVIRONMENT" | "GRADER" | "CANCELLED";

export function runnerMetrics(metrics: Metrics, slots: Slots): RunnerMetrics {
  metrics.gauge({ name: "env_slots_used", help: "Sessions open now.", read: () => slots.used });
  metrics.gauge({ name: "env_slots", help: "Sessions that may be open at once.", read: () => slots.total });
  const steps = metrics.counter({ name: "env_steps_total", help: "Steps taken." });
  const sessions = metrics.counter({
    name: "env_sessions_total",
    help: "Sessions by how they ended.",
    labels: ["end"],
  });
  return {
    step: () => {
      steps.inc();
    },
    session: (end) => {
      sessions.inc({ end });
    },
  };
}
