// SPDX-License-Identifier: Apache-2.0
/** Episodes that are played for a group and never trained: each trained group has one, if one was dispatched for it. */
import type { Episode } from "@whetstone/proto/types/v1/types";
import { Purpose } from "@whetstone/proto/types/v1/types";

import { claimOf, type Dispatched, type Entry, nameOf } from "./audit-facts.ts";
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

/** What is wrong with a batch's claim on an episode, by what it was dispatched as. */
export function placeFault(entry: Entry, { group, isBaseline }: Dispatched): string | undefined {
  if (entry.isBaseline !== isBaseline) return `dispatched as ${nameOf(isBaseline)}, but its batch ${claimOf(entry)} it`;
  if (!isBaseline || entry.group === group) return undefined;
  return `the baseline of ${group}, but its batch uses it for "${entry.group}"`;
}

/** The same, by the episode that was sealed. */
export function bodyFault(entry: Entry, { purpose, reward }: Episode): string | undefined {
  if (entry.isBaseline !== (purpose === Purpose.BASELINE))
    return `its batch ${claimOf(entry)} it, but it was played as ${Purpose[purpose]}`;
  if (!entry.isBaseline || reward === entry.reward) return undefined;
  return `its reward is ${reward}, its batch says ${entry.reward}`;
}
