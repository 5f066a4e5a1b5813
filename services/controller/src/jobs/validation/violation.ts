// SPDX-License-Identifier: Apache-2.0
/** One reason why a job cannot run, with the path of the field that has to change. */
export interface Violation {
  readonly path: string;
  readonly reason: string;
  /** The same text may be right once the world has changed: a folder is filled, a pool is made. */
  readonly curable?: true;
}

/** Collects violations; nothing is thrown before every field was looked at. */
export class Findings {
  readonly violations: Violation[];

  constructor(violations: readonly Violation[] = []) {
    this.violations = [...violations];
  }

  check(path: string, holds: boolean, reason: string): void {
    if (!holds) this.violations.push({ path, reason });
  }

  has(path: string): boolean {
    return this.violations.some((violation) => violation.path === path);
  }
}
