// SPDX-License-Identifier: Apache-2.0

/** What a number may be. Absent ends are open. */
export interface Range {
  readonly min?: number | undefined;
  readonly max?: number | undefined;
  /** `min` itself is refused: numbers may come as near to it as they like. */
  readonly isAbove?: boolean | undefined;
}

/** "from 2 to 1024", "above 0 and at most 1", "at least 1", with `unit` behind each number. */
export function rangeText({ min, max, isAbove = false }: Range, unit = ""): string {
  if (min === undefined) return `at most ${max}${unit}`;
  if (isAbove) return max === undefined ? `above ${min}${unit}` : `above ${min}${unit} and at most ${max}${unit}`;
  return max === undefined ? `at least ${min}${unit}` : `from ${min}${unit} to ${max}${unit}`;
}

/** NaN is in no range. */
export function isWithin(value: number, { min = -Infinity, max = Infinity, isAbove = false }: Range): boolean {
  return (isAbove ? value > min : value >= min) && value <= max;
}

/** What a number outside its range is told. */
export function outOfRange(range: Range, value: number | string, hint = "", unit = ""): string {
  return `must be ${rangeText(range, unit)}, got ${value}${unit}${hint === "" ? "" : `: ${hint}`}`;
}

/** What a field that is not there is told. */
export function missing(range: Range | undefined, hint = ""): string {
  return ["is required", range && rangeText(range), hint].filter(Boolean).join(": ");
}
