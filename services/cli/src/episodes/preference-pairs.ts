// SPDX-License-Identifier: Apache-2.0
/** Recorded episodes as tasks for DPO: of each group the best and the worst. */
import type { DatasetTask, RecordedCall } from "@whetstone/datasets";
import { parseEpisodeId } from "@whetstone/core";
import { type Episode, type EpisodeSummary, FailureClass, Purpose } from "@whetstone/proto/types/v1/types";

type Ranked = Pick<EpisodeSummary, "episodeId" | "reward">;

/** Keeps of each group the episodes that were rewarded most and least, by their summaries. */
export class GroupExtremes {
  readonly #groups = new Map<string, { best: Ranked; worst: Ranked }>();

  add(summary: EpisodeSummary): void {
    if (!isPlayed(summary)) return;
    const { episodeId, reward } = summary;
    const { group } = parseEpisodeId(episodeId);
    const one = { episodeId, reward };
    const known = this.#groups.get(group);
    if (!known) this.#groups.set(group, { best: one, worst: one });
    else if (reward > known.best.reward) known.best = one;
    else if (reward < known.worst.reward) known.worst = one;
  }

  get count(): number {
    return this.#groups.size;
  }

  /** Of groups whose rewards differ. */
  pairs(): { best: string; worst: string }[] {
    return [...this.#groups.values()]
      .filter(({ best, worst }) => best.reward > worst.reward)
      .map(({ best, worst }) => ({ best: best.episodeId, worst: worst.episodeId }));
  }
}

/** What failed by no fault of the model says nothing about its answers. */
function isPlayed({ purpose, failureClass, sampledTokens }: EpisodeSummary): boolean {
  const isScored = failureClass === FailureClass.NONE || failureClass === FailureClass.POLICY;
  return isScored && sampledTokens > 0 && purpose === Purpose.TRAIN;
}

/** Undefined: the two did not answer the same prompt, or more than one role played. */
export function pairTask(best: Episode, worst: Episode): DatasetTask | undefined {
  const [first, other] = [best.calls[0]?.promptIds, worst.calls[0]?.promptIds];
  if (first === undefined || first.join() !== other?.join()) return undefined;
  if (best.trajectories.length !== 1 || worst.trajectories.length !== 1) return undefined;
  const { payload = {}, source = "" } = best.task ?? {};
  return {
    id: `${best.job}-${best.group}`,
    payload,
    source,
    chosenCalls: best.calls.map((call) => recorded(call, best)),
    rejectedCalls: worst.calls.map((call) => recorded(call, worst)),
  };
}

/** The calls of the trajectory are trained, what others said in between is context: as the trainer tells them apart. */
function recorded({ id, parentId, promptIds, completionIds }: Episode["calls"][number], of: Episode): RecordedCall {
  const named = new Set(of.trajectories[0]?.steps.map(({ callId }) => callId).filter(Boolean));
  const isOwn = named.size === 0 || named.has(id) || id === of.calls.at(-1)?.id;
  return { id, parentId, promptIds, completionIds, demonstrationMask: completionIds.map(() => (isOwn ? 1 : 0)) };
}
