// SPDX-License-Identifier: Apache-2.0
/** What keeps pages from what is not theirs. */
export type Guard = "sandbox" | "requests" | "proxy" | "addresses" | "own context";

/** For tests that see what a guard is good for: those that are taken away. */
export type Without = ReadonlySet<Guard>;
