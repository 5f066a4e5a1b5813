// SPDX-License-Identifier: Apache-2.0

/** "environment": a change of a repository's code can hardly have caused it. "ambiguous": it can. */
export type InfraTier = "environment" | "ambiguous";

export interface InfraFailure {
  readonly reason: string;
  readonly tier: InfraTier;
}

const SIGNATURES: readonly (readonly [string, InfraTier, RegExp])[] = [
  ["browser_launch_failed", "environment", /Failed to launch|Failed to connect to the bus/u],
  ["display_unavailable", "environment", /cannot open display|Missing X server|unable to open X display/u],
  ["out_of_memory", "environment", /Cannot allocate memory|OutOfMemoryError|^Killed$/mu],
  ["container_unavailable", "environment", /Error response from daemon|Cannot connect to the Docker daemon/u],
  ["network_unreachable", "environment", /Could not resolve host|Temporary failure in name resolution/u],
  ["missing_module", "ambiguous", /Cannot find module|MODULE_NOT_FOUND|ModuleNotFoundError/u],
  ["no_tests_collected", "ambiguous", /no tests ran|collected 0 items/u],
  ["tests_timed_out", "ambiguous", /Timeout error: \d+ seconds exceeded/u],
];

/**
 * SWE-bench's signatures of a broken environment. It is a hint for people and never voids an episode: a change that prints one of
 * these lines would otherwise escape its 0.
 */
export function infraFailureOf(log: string): InfraFailure | undefined {
  const found = SIGNATURES.find(([, , pattern]) => pattern.test(log));
  return found === undefined ? undefined : { reason: found[0], tier: found[1] };
}
