// SPDX-License-Identifier: Apache-2.0
import { badInput } from "../cli-error.ts";

interface Range {
  readonly least: number;
  readonly most: number;
  readonly whole?: boolean;
}

/** The value of an option. @throws CliError that names it and its range */
export function numberOf(
  path: string,
  text: string | undefined,
  ifNone: number,
  { least, most, whole }: Range,
): number {
  const value = text === undefined ? ifNone : text.trim() === "" ? NaN : Number(text);
  if (value >= least && value <= most && (whole !== true || Number.isInteger(value))) return value;
  throw badInput([{ path, reason: `must be a number from ${least} to ${most}, not "${text}"` }]);
}
