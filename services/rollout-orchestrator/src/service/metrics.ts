// SPDX-License-Identifier: Apache-2.0
import { type Episode, FailureClass, TerminationReason } from "@whetstone/proto/types/v1/types";
import type { Metrics } from "@whetstone/telemetry";
import type { LimitReason, LimitState } from "../slots/adaptive-limit.ts";
import type { FairGate } from "../slots/fair-gate.ts";

export interface OrchestratorMetrics {
  sealed(episode: Episode, duplicate: boolean): void;
  /** An episode that could not be sealed; its task was handed back. */
  lost(): void;
  /** An episode whose env-runner went in order. */
  handedBack(): void;
  /** The process of a job's own code ended unasked. */
  moduleEnd(code: string): void;
  /** How many slots are open, and why not more. */
  readonly limit: (state: LimitState) => void;
}

const REASONS: readonly LimitReason[] = ["none", "engine_queue", "engine_cache", "environment_slots"];

export function orchestratorMetrics(metrics: Metrics, gate: FairGate): OrchestratorMetrics {
  metrics.gauge({ name: "episodes_in_flight", help: "Episodes that play now.", read: () => gate.active });
  metrics.gauge({ name: "episodes_waiting", help: "Tasks taken that wait for a slot.", read: () => gate.queued });
  metrics.gauge({ name: "slots_open", help: "Episodes that may play at once.", read: () => gate.limit });
  const reasons = metrics.gauge({
    name: "slots_limit_reason",
    help: "1 for what keeps the open slots below maxEpisodes.",
    labels: ["reason"],
  });
  const finished = metrics.counter({
    name: "episodes_total",
    help: "Episodes sealed, by how they ended.",
    labels: ["reason", "class"],
  });
  const duplicates = metrics.counter({ name: "episodes_duplicate_total", help: "Seals that were there already." });
  const lost = metrics.counter({ name: "episodes_unsealed_total", help: "Tasks handed back because sealing failed." });
  const handedBack = metrics.counter({
    name: "episodes_handed_back_total",
    help: "Plays that ended because their env-runner went, or none had room; they were played again.",
  });
  const turns = metrics.counter({ name: "episode_turns_total", help: "Turns of sealed episodes." });
  const phases = metrics.counter({
    name: "episode_phase_seconds_total",
    help: "Time of sealed episodes by phase.",
    labels: ["phase"],
  });
  const seconds = metrics.histogram({ name: "episode_seconds", help: "Duration of sealed episodes." });
  const moduleEnds = metrics.counter({
    name: "module_process_ends_total",
    help: "Processes of jobs' own code that ended unasked, by why.",
    labels: ["code"],
  });
  return {
    limit: (state) => {
      for (const reason of REASONS) reasons.set({ reason }, Number(reason === state.reason));
    },
    handedBack: () => {
      handedBack.inc();
    },
    moduleEnd: (code) => {
      moduleEnds.inc({ code });
    },
    sealed(episode, duplicate) {
      if (duplicate) duplicates.inc();
      finished.inc({
        reason: TerminationReason[episode.terminationReason],
        class: FailureClass[episode.failure?.failureClass ?? FailureClass.NONE],
      });
      turns.inc(episode.trajectories.reduce((sum, { steps }) => sum + steps.length, 0));
      const { timing } = episode;
      phases.inc({ phase: "model" }, secondsOf(timing?.model));
      phases.inc({ phase: "environment" }, secondsOf(timing?.environment));
      phases.inc({ phase: "waiting" }, secondsOf(timing?.waiting));
      seconds.observe(secondsOf(timing?.total));
    },
    lost: () => {
      lost.inc();
    },
  };
}

function secondsOf(duration: { readonly seconds: bigint; readonly nanos: number } | undefined): number {
  return duration === undefined ? 0 : Number(duration.seconds) + duration.nanos / 1e9;
}
