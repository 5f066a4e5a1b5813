// SPDX-License-Identifier: Apache-2.0
/** What several replicas of the gateway say of the engines that they share. Pure. */
import type { EngineLoad } from "./adaptive-limit.ts";

/** The answer of one replica to `GET /load`. */
export interface LoadAnswer {
  readonly serving: number;
  readonly running: number;
  /** In engines, and at this replica. */
  readonly waiting: number;
  readonly kv_use: number | null;
  /** At this replica alone. */
  readonly queued?: number;
  readonly engines?: readonly EngineLine[];
}

interface EngineLine {
  readonly id: string;
  readonly state: string;
  /** Calls of this replica. */
  readonly in_flight: number;
  /** Of all replicas. Null: the engine does not say. */
  readonly running: number | null;
  readonly waiting: number | null;
}

/** @param answers  at least one */
export function mergeLoads(answers: readonly [LoadAnswer, ...LoadAnswer[]]): EngineLoad {
  const [only] = answers;
  const kvUse = maxOf(answers.map(({ kv_use: use }) => use));
  if (answers.length === 1) return { serving: only.serving, running: only.running, waiting: only.waiting, kvUse };
  const lines = answers.flatMap(({ engines = [] }) => engines).filter(({ state }) => state === "serving");
  const engines = [...Map.groupBy(lines, ({ id }) => id).values()];
  const queued = sumOf(answers.map((answer) => answer.queued ?? 0));
  return {
    serving: engines.length,
    running: sumOf(engines.map(runningOn)),
    // An engine tells every replica the same; what waits at a replica is its own.
    waiting: queued + sumOf(engines.map((engine) => maxOf(engine.map(({ waiting }) => waiting)) ?? 0)),
    kvUse,
  };
}

function runningOn(engine: readonly EngineLine[]): number {
  return maxOf(engine.map(({ running }) => running)) ?? sumOf(engine.map(({ in_flight: calls }) => calls));
}

function maxOf(values: readonly (number | null)[]): number | undefined {
  const known = values.filter((value) => value !== null);
  return known.length === 0 ? undefined : Math.max(...known);
}

function sumOf(values: readonly number[]): number {
  return values.reduce((sum, value) => sum + value, 0);
}
