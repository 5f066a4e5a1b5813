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
  /** NaN is in no range. */
  range(path: string, value: number | undefined, low: number, high: number): void {
    if (value === undefined) return;
    this.check(path, value >= low && value <= high, `must be from ${low} to ${high}, got ${value}`);
  }
  /** Of a time-out. */
  milliseconds(path: string, value: number, high: number): void {
    this.check(path, value >= 1 && value <= high, `must be from 1 to ${high} milliseconds, got ${value}`);
  }
  /** Of a positive number that may be as small as it likes. */
  above(path: string, value: number | undefined, low: number, high: number): void {
    if (value === undefined) return;
    this.check(path, value > low && value <= high, `must be above ${low} and at most ${high}, got ${value}`);
  }
  /** Of a 64-bit number: beyond 2^53 its neighbours would be the same number here. */
  exact(path: string, value: bigint | undefined): void {
    if (value === undefined) return;
    const most = Number.MAX_SAFE_INTEGER;
    this.check(path, value <= BigInt(most), `must be at most ${most}, got ${value}`);
  }
  has(path: string): boolean {
    return this.violations.some((violation) => violation.path === path);
  }
}
