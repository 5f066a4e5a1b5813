// SPDX-License-Identifier: Apache-2.0
/** Episodes that are played for a group and never trained: each trained group has one, if one was dispatched for it. */
import type { Dispatched, Entry } from "./audit-facts.ts";
import type { AuditReport } from "./audit-report.ts";

export function checkBaselines(
  job: string,
  entries: ReadonlyMap<string, Entry>,
  dispatched: Iterable<Dispatched>,
  report: AuditReport,
): void {
  const trained = new Set([...entries.values()].filter((one) => !one.isBaseline).map(({ group }) => group));
  const used = new Set<string>();
  for (const [id, { group, isBaseline, step }] of entries) {
    if (!isBaseline) continue;
    if (used.has(group)) report.add("duplicated", id, `a second baseline of ${group} in the batch of step ${step}`);
    if (!trained.has(group)) report.add("lost", id, `the batch of step ${step} trains nothing of its group "${group}"`);
    used.add(group);
  }
  const bare = new Set([...dispatched].filter((one) => one.isBaseline).map(({ group }) => group))
    .intersection(trained)
    .difference(used);
  for (const group of bare)
    report.add("lost", `${job}/${group}`, "trained without the baseline that was dispatched for it");
}
