// SPDX-License-Identifier: Apache-2.0

/** The env-runners that one play may use. */
export interface Runners {
  /** "host:port", best first. */
  readonly addresses: readonly string[];
  /**
   * They come and go: one that cannot be reached is no failure of the episode, which is then played elsewhere. False: there
   * is this one, which is waited for.
   */
  readonly elastic: boolean;
}

/** One for good. */
export function fixedRunner(address: string): Runners {
  return { addresses: [address], elastic: false };
}
