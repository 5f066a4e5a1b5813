// SPDX-License-Identifier: Apache-2.0
/** A line chart of braille dots: 2 × 4 dots in each character cell. */
import { formatNumber } from "./format.ts";

export interface CurveSize {
  /** Character cells of the plot itself, without the axis. */
  readonly columns: number;
  readonly rows: number;
}

/** Bit of each dot of a braille cell, by [row][column]. Source: Unicode, "Braille Patterns" U+2800. */
const DOTS = [
  [0x01, 0x08],
  [0x02, 0x10],
  [0x04, 0x20],
  [0x40, 0x80],
] as const;

/**
 * Lines of a chart with its y axis at the left: values over their index, earliest left. More values than dots are
 * averaged, fewer are spread. Values that are not finite are gaps. No values: no lines.
 */
export function renderCurve(values: readonly number[], { columns, rows }: CurveSize): string[] {
  const finite = values.filter((value) => Number.isFinite(value));
  if (finite.length === 0 || columns < 2 || rows < 1) return [];
  const low = finite.reduce((a, b) => Math.min(a, b));
  const high = finite.reduce((a, b) => Math.max(a, b));
  const heights = resample(values, columns * 2).map((value) => dotHeight(value, low, high, rows * 4));
  return withAxis(drawDots(heights, { columns, rows }), low, high);
}

/** One value a dot column: averages where there are more values, repeats where there are fewer. */
export function resample(values: readonly number[], width: number): number[] {
  return Array.from({ length: width }, (_, x) => {
    const from = Math.floor((x * values.length) / width);
    const to = Math.max(from + 1, Math.floor(((x + 1) * values.length) / width));
    const bucket = values.slice(from, to).filter((value) => Number.isFinite(value));
    return bucket.length === 0 ? NaN : bucket.reduce((a, b) => a + b) / bucket.length;
  });
}

/** Dots above the bottom, 0 to `dots` - 1; a flat line runs in the middle. */
function dotHeight(value: number, low: number, high: number, dots: number): number {
  if (!Number.isFinite(value)) return NaN;
  return high === low ? Math.floor(dots / 2) : Math.round(((value - low) / (high - low)) * (dots - 1));
}

/** Sets each column's dot, and those between it and its neighbour, so that steep parts stay a line. */
function drawDots(heights: readonly number[], { columns, rows }: CurveSize): string[] {
  const cells = Array.from({ length: rows }, () => new Uint8Array(columns));
  heights.forEach((height, x) => {
    if (Number.isNaN(height)) return;
    const before = heights[x - 1] ?? NaN;
    const from = Number.isNaN(before) ? height : before + Math.sign(height - before);
    for (let y = Math.min(from, height); y <= Math.max(from, height); y += 1) setDot(cells, x, rows * 4 - 1 - y);
  });
  return cells.map((row) => String.fromCodePoint(...Array.from(row, (bits) => 0x2800 + bits)));
}

function setDot(cells: readonly Uint8Array[], x: number, y: number): void {
  const row = cells[y >> 2];
  const bit = DOTS[y & 3]?.[x & 1];
  if (row && bit !== undefined) row[x >> 1] = (row[x >> 1] ?? 0) | bit;
}

function withAxis(lines: readonly string[], low: number, high: number): string[] {
  const [top, bottom] = [formatNumber(high), formatNumber(low)];
  const width = Math.max(top.length, bottom.length);
  return lines.map((line, index) => {
    const label = index === 0 ? top : index === lines.length - 1 ? bottom : "";
    return `${label.padStart(width)} ┤${line}`;
  });
}
