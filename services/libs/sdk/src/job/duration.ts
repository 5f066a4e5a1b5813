// SPDX-License-Identifier: Apache-2.0

/** Milliseconds as a number, or a text with a unit: "250ms", "1.5s", "20m", "2h". */
export type Duration = number | string;

const UNIT_MS: Readonly<Record<string, number>> = { ms: 1, s: 1_000, m: 60_000, h: 3_600_000 };
const TEXT = /^(\d+(?:\.\d+)?)\s*(ms|s|m|h)$/;

/** Undefined: not a duration, or negative. */
export function durationMs(duration: Duration): number | undefined {
  if (typeof duration === "number") return Number.isFinite(duration) && duration >= 0 ? duration : undefined;
  const [, amount, unit] = TEXT.exec(duration.trim()) ?? [];
  return amount === undefined ? undefined : Number(amount) * (UNIT_MS[unit as string] as number);
}

/** Protobuf's JSON form, seconds with at most nine decimals: 1500 → "1.5s". `duration` was checked by `durationMs`. */
export function durationText(duration: Duration): string {
  const seconds = (durationMs(duration) as number) / 1_000;
  return `${seconds.toFixed(9).replace(/\.?0+$/, "")}s`;
}
