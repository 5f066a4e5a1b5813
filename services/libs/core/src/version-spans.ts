// SPDX-License-Identifier: Apache-2.0
/** Completion tokens [start, end) of a call, sampled by one version. */
export interface VersionSpan {
  readonly start: number;
  readonly end: number;
  readonly policyVersion: bigint;
}

/**
 * The version that sampled each of a call's `count` completion tokens (I5). Undefined, a token is unlabelled: no span has it,
 * or more than one, and then nobody can say which of them is right.
 */
export function versionOfEachToken(count: number, spans: readonly VersionSpan[]): (bigint | undefined)[] {
  const versions = new Array<bigint | undefined>(count).fill(undefined);
  const claims = new Uint8Array(count);
  for (const { start, end, policyVersion } of spans) {
    for (let i = start; i < Math.min(end, count); i++) {
      versions[i] = claims[i] === 0 ? policyVersion : undefined;
      claims[i] = 1;
    }
  }
  return versions;
}
