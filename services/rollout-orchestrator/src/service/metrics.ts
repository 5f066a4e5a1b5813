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
  metrics.gaugeOf("episodes_in_flight", "Episodes that play now.", () => gate.active);
  metrics.gaugeOf("episodes_waiting", "Tasks taken that wait for a slot.", () => gate.queued);
  metrics.gaugeOf("slots_open", "Episodes that may play at once.", () => gate.limit);
  const reasons = metrics.gauge("slots_limit_reason", "1 for what keeps the open slots below maxEpisodes.", ["reason"]);
  const finished = metrics.counter("episodes_total", "Episodes sealed, by how they ended.", ["reason", "class"]);
  const duplicates = metrics.counter("episodes_duplicate_total", "Seals that were there already.");
  const lost = metrics.counter("episodes_unsealed_total", "Tasks handed back because sealing failed.");
  const handedBack = metrics.counter(
    "episodes_handed_back_total",
    "Plays that ended because their env-runner went, or none had room; they were played again.",
  );
  const turns = metrics.counter("episode_turns_total", "Turns of sealed episodes.");
  const phases = metrics.counter("episode_phase_seconds_total", "Time of sealed episodes by phase.", ["phase"]);
  const seconds = metrics.histogram("episode_seconds", "Duration of sealed episodes.");
  const moduleEnds = metrics.counter(
    "module_process_ends_total",
    "Processes of jobs' own code that ended unasked, by why.",
    ["code"],
  );
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
