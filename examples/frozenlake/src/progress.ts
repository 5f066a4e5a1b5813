// SPDX-License-Identifier: Apache-2.0
import type { StepRecord, StreamMetricsResponse, ValidationResult } from "@whetstone/proto/jobs/v1/jobs";

/** On a terminal the last line moves; elsewhere a plain line every tenth step. Demonstrations are not played: they have a loss only. */
export function progressPrinter(
  name: string,
  isPlayed: boolean,
): { show(event: StreamMetricsResponse["event"]): void } {
  const live = process.stdout.isTTY;
  const startedAt = performance.now();
  const stepLine = isPlayed ? playedLine : lossLine;
  const seconds = (): string => `${((performance.now() - startedAt) / 1000).toFixed(0).padStart(4)} s`;
  return {
    show(event) {
      if (event.case === "validation")
        console.log(`${live ? "\r\x1b[K" : ""}${seconds()}  ${name}  ${validationLine(event.value)}`);
      if (event.case !== "step") return;
      if (live) process.stdout.write(`\r\x1b[K${seconds()}  ${name}  ${stepLine(event.value)}`);
      else if (event.value.step % 10 === 9) console.log(`${seconds()}  ${name}  ${stepLine(event.value)}`);
    },
  };
}

function lossLine({ step, metrics }: StepRecord): string {
  return `step ${step + 1}  loss ${metrics["loss"]?.toFixed(3)}`;
}

function playedLine(record: StepRecord): string {
  const success = record.metrics["rollout/success"] ?? 0;
  const bar = "█".repeat(Math.round(success * 20)).padEnd(20, "·");
  return `step ${record.step + 1}  ${bar} ${(100 * success).toFixed(0)} % of ${record.episodes} episodes reach the goal`;
}

function validationLine(result: ValidationResult): string {
  return `held-out after step ${result.step}, ${result.variant}: ${(100 * result.success).toFixed(1)} % of ${result.tasks} maps`;
}
