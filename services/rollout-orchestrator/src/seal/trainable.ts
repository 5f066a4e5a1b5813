// SPDX-License-Identifier: Apache-2.0
/**
 * Judges, when an episode is sealed, whether a step can train it, so that no manifest lists one that the trainer must
 * refuse (I6). The trainer applies the same rules in `episode_rows.py`; both read proto/golden/trainable.json.
 */
import { type Episode, type ModelCall, Purpose, type Sampling } from "@whetstone/proto/types/v1/types";

const NOTHING_LEFT =
  "none of its tokens can be trained: every call was greedy (temperature 0) or drawn from a part of the vocabulary that its engine did not name (top_p, top_k, min_p)";

/** Of an agent whose own client asks for other sampling than the job's. */
function allAltered(names: ReadonlySet<string>): string {
  const asked = [...names].join(", ");
  return `none of its tokens can be trained: the agent's client asks for sampling that is not the job's (${asked}); agent.clientSampling "override" makes the job's hold`;
}

/** Of an episode or a trajectory, to either side of 0. With more, the trainer's gradients overflow. */
const LARGEST_REWARD = 1e12;

/** Why no step can train the episode, or use it as a baseline, for people. Empty: one can. What has no tokens at all is told by their number. */
export function whyNotTrainable(episode: Episode): string {
  const { purpose, calls, reward, trajectories } = episode;
  if (![Purpose.TRAIN, Purpose.DEMONSTRATION, Purpose.BASELINE].includes(purpose)) return "";
  const rewards = [reward, ...trajectories.map((one) => one.reward)];
  if (!rewards.every(Number.isFinite)) return "its reward is not finite";
  if (rewards.some((one) => Math.abs(one) > LARGEST_REWARD)) return `its reward is beyond ±${LARGEST_REWARD}`;
  if (purpose === Purpose.BASELINE) return ""; // Only its reward is used.
  const earlier = new Set<string>();
  for (const call of calls) {
    const fault = faultOf(call, earlier, purpose);
    if (fault !== "") return `call ${call.id}: ${fault}`;
    earlier.add(call.id);
  }
  const sampled = calls.filter(({ completionIds }) => completionIds.length > 0);
  if (sampled.length === 0 || !sampled.every((call) => isContext(call, purpose))) return "";
  const altered = new Set(sampled.flatMap(({ alteredBy }) => alteredBy));
  return altered.size > 0 ? allAltered(altered) : NOTHING_LEFT;
}

/**
 * Whether the call was drawn in a way that no step can train, so that its tokens are context. A greedy token has
 * probability 1 whatever the weights; one drawn from a part of the vocabulary has a probability within that part, which the
 * trainer can only compute where the engine named it. What penalties, biases or a form altered, or was drawn otherwise than
 * the job says, is no sample of the policy that is trained.
 */
function isContext({ sampling, supportCounts, alteredBy }: ModelCall, purpose: Purpose): boolean {
  if (purpose !== Purpose.TRAIN) return false;
  const { temperature = 1 } = sampling ?? {};
  const isDrawn = temperature > 0 && temperature < Infinity;
  return alteredBy.length > 0 || !isDrawn || (isTruncated(sampling) && supportCounts.length === 0);
}

function isTruncated({ topP = 1, topK = 0, minP = 0 }: Partial<Sampling> = {}): boolean {
  return !(topP >= 1) || topK > 0 || !(minP <= 0);
}

function faultOf(call: ModelCall, earlier: ReadonlySet<string>, purpose: Purpose): string {
  const { parentId, promptIds, completionIds, demonstrationMask } = call;
  if (parentId !== "" && !earlier.has(parentId)) return `parent "${parentId}" is not an earlier call`;
  if (isContext(call, purpose) || completionIds.length === 0) return "";
  if (parentId === "" && promptIds.length === 0) return "a sampled token without a prompt";
  if (purpose === Purpose.TRAIN) return faultOfSampled(call);
  const agrees = demonstrationMask.length === 0 || demonstrationMask.length === completionIds.length;
  return agrees ? "" : `${completionIds.length} completion ids but ${demonstrationMask.length} mask values`;
}

function faultOfSampled(call: ModelCall): string {
  const { completionIds, logprobs, versionSpans } = call;
  const count = completionIds.length;
  if (logprobs.length !== count) return `${count} completion ids but ${logprobs.length} logprobs`;
  if (!logprobs.every(Number.isFinite)) return "a log-probability is not finite";
  const unsupported = faultOfSupport(call);
  if (unsupported !== "") return unsupported;
  const span = versionSpans.find(({ start, end }) => start > end || end > count);
  return span ? `version span [${span.start}, ${span.end}) of ${count} tokens` : "";
}

function faultOfSupport({ completionIds, supportIds, supportCounts }: ModelCall): string {
  if (supportCounts.length === 0) return "";
  const [count, total] = [completionIds.length, supportCounts.reduce((sum, one) => sum + one, 0)];
  if (supportCounts.length !== count || supportIds.length !== total)
    return `${supportIds.length} support ids in ${supportCounts.length} supports of ${count} completion ids`;
  let start = 0;
  const outside = completionIds.findIndex((id, i) => {
    const support = supportIds.slice(start, (start += supportCounts[i] ?? 0));
    return !support.includes(id);
  });
  return outside < 0 ? "" : `token ${outside} is not in its own support`;
}
