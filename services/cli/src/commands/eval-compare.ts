// SPDX-License-Identifier: Apache-2.0
/** `whet eval compare`: two evaluations, task by task. */
import { compareReports } from "@whetstone/sdk";

import { loadReport } from "../evaluation/report-files.ts";
import { badInput } from "../cli-error.ts";
import { comparisonLines } from "../evaluation/eval-tables.ts";
import type { CommandContext, CommonOptions } from "./context.ts";

export async function compareEvaluations(
  before: string,
  after: string,
  flags: CommonOptions,
  { terminal }: CommandContext,
): Promise<void> {
  const comparison = compareReports(await loadReport(before), await loadReport(after));
  if (comparison.total.tasks === 0)
    throw badInput([{ path: after, reason: `has no scored task in common with ${before}` }]);
  if (flags.json === true) return terminal.json(comparison);
  for (const line of comparisonLines(comparison)) terminal.line(line);
}
