// SPDX-License-Identifier: Apache-2.0
/** Whose version sampled each token, read from a body's spans. */
import { versionOfEachToken } from "@whetstone/core";
import type { Episode, ModelCall } from "@whetstone/proto/types/v1/types";

export interface TokenCheck {
  /** Sampled tokens outside the versions that the step may train (I3). */
  stale: number;
  /** Sampled tokens that no span labels, or several do (I5). */
  unlabelled: number;
  /** The first stale token's story. Absent: none is. */
  reason?: string;
}

/** A token is stale when its version is below step − maxPolicyLag, or above the step that trains it. */
export function checkTokens(episode: Episode, step: number, maxPolicyLag: number): TokenCheck {
  const result: TokenCheck = { stale: 0, unlabelled: 0 };
  for (const call of episode.calls) checkCall(call, step, maxPolicyLag, result);
  return result;
}

function checkCall(call: ModelCall, step: number, maxPolicyLag: number, result: TokenCheck): void {
  const versions = versionOfEachToken(call.completionIds.length, call.versionSpans);
  versions.forEach((version, index) => {
    if (version === undefined) result.unlabelled += 1;
    else if (version < step - maxPolicyLag || version > step) {
      result.stale += 1;
      result.reason ??= `call ${call.id} token ${index} was sampled by version ${version}`;
    }
  });
}
