// SPDX-License-Identifier: Apache-2.0
/** Enum values by the short names that job files and output use: JOB_PHASE_RUNNING ↔ RUNNING. */
import type { DescEnum } from "@bufbuild/protobuf";

/** "JOB_PHASE_RUNNING" → "RUNNING". An unknown number is shown as it is. */
export function enumShortName(schema: DescEnum, value: number): string {
  return shortNames(schema).get(value) ?? String(value);
}

/** Short names by number. The prefix is the one that protobuf style demands, if all values share it. */
export function shortNames(schema: DescEnum): Map<number, string> {
  const prefix = `${schema.name.replace(/([a-z0-9])([A-Z])/g, "$1_$2").toUpperCase()}_`;
  return new Map(
    schema.values.map((value) => [
      value.number,
      value.name.startsWith(prefix) ? value.name.slice(prefix.length) : value.name,
    ]),
  );
}

/** The full name of a short or full name; undefined: no such value. */
export function enumFullName(schema: DescEnum, text: string): string | undefined {
  const short = shortNames(schema);
  return schema.values.find((value) => value.name === text || short.get(value.number) === text)?.name;
}
