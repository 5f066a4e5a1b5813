// SPDX-License-Identifier: Apache-2.0
/** Whose version sampled each token, read from a body's spans. */
import type { Episode, ModelCall } from "@whetstone/proto/types/v1/types";

export interface TokenCheck {
  /** Sampled tokens outside the versions that the step may train (I3). */
  stale: number;
  /** Sampled tokens outside every span (I5). */
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
  const versions = versionOfEach(call);
  versions.forEach((version, index) => {
    if (version === undefined) result.unlabelled += 1;
    else if (version < step - maxPolicyLag || version > step) {
      result.stale += 1;
      result.reason ??= `call ${call.id} token ${index} was sampled by version ${version}`;
    }
  });
}

/** The version of each sampled token; undefined: no span covers it. A later span does not overwrite an earlier one. */
function versionOfEach(call: ModelCall): (number | undefined)[] {
  const versions = new Array<number | undefined>(call.completionIds.length).fill(undefined);
  for (const { start, end, policyVersion } of call.versionSpans) {
    for (let index = start; index < Math.min(end, versions.length); index += 1)
      versions[index] ??= Number(policyVersion);
  }
  return versions;
}
