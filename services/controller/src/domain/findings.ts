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
  readonly violations: Violation[] = [];
  check(path: string, holds: boolean, reason: string): void {
    if (!holds) this.violations.push({ path, reason });
  }
  range(path: string, value: number | undefined, low: number, high: number): void {
    if (value === undefined) return;
    this.check(path, value >= low && value <= high, `must be from ${low} to ${high}, got ${value}`);
  }
  above(path: string, value: number | undefined, low: number): void {
    if (value !== undefined) this.check(path, value > low, `must be above ${low}, got ${value}`);
  }
}
