// SPDX-License-Identifier: Apache-2.0
import type { EpisodeSummary } from "@whetstone/proto/types/v1/types";

import { durationMs } from "../src/jobs/duration.ts";
import type { KeptSummary } from "../src/loop/batch/sealed-episode.ts";

/** What the controller keeps of an episode's summary. */
export function keptSummary(summary: EpisodeSummary): KeptSummary {
  const { total, model } = summary.timing ?? {};
  return { ...summary, totalMs: total ? durationMs(total) : 0, modelMs: model ? durationMs(model) : 0 };
}
