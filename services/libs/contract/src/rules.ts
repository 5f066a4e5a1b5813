// SPDX-License-Identifier: Apache-2.0
/** What the contract says of a field beside its type: the options of buf/validate and of whetstone/contract, as values. */
import { type DescField, type DescOneof, getOption } from "@bufbuild/protobuf";
import type { Range } from "@whetstone/core";
import { default_value, hint, mutable, not_in_object, unique_by } from "@whetstone/proto/contract/v1/options";
import { field as fieldRules, type FieldRules, oneof as oneofRules } from "@whetstone/proto/validate";

/** Longest text in characters, and most members of a list, where a field has no bound of its own. */
export const TEXT = 1024;
export const ITEMS = 64;

export interface Rules {
  readonly isRequired: boolean;
  /** Of a number, or of a duration in seconds. Unsigned numbers start at 0. */
  readonly range: Range | undefined;
  readonly pattern: string | undefined;
  readonly minLength: number | undefined;
  readonly maxLength: number | undefined;
  readonly maxItems: number | undefined;
  /** Completes what a refused value is told. Empty: none. */
  readonly hint: string;
  /** In protobuf's JSON form. Undefined: absence has a meaning of its own. */
  readonly defaultValue: string | undefined;
  readonly uniqueBy: string;
  readonly isMutable: boolean;
  readonly isNotInObject: boolean;
}

export function rulesOf(field: DescField): Rules {
  const rules = getOption(field, fieldRules);
  const text = rules.type.case === "string" ? rules.type.value : undefined;
  const list = rules.type.case === "repeated" ? rules.type.value : undefined;
  return {
    isRequired: rules.required,
    range: rangeOf(rules),
    pattern: text?.pattern || undefined,
    minLength: text?.minLen ? Number(text.minLen) : undefined,
    maxLength: text?.maxLen ? Number(text.maxLen) : undefined,
    maxItems: list?.maxItems ? Number(list.maxItems) : undefined,
    hint: getOption(field, hint),
    defaultValue: getOption(field, default_value) || undefined,
    uniqueBy: getOption(field, unique_by),
    isMutable: getOption(field, mutable),
    isNotInObject: getOption(field, not_in_object),
  };
}

/** Whether exactly one of its members must be there; of other oneofs, at most one. */
export function isNeeded(oneof: DescOneof): boolean {
  return getOption(oneof, oneofRules).required;
}

function rangeOf({ type }: FieldRules): Range | undefined {
  switch (type.case) {
    case "double":
    case "uint32":
    case "uint64":
    case "duration": {
      const { greaterThan, lessThan } = type.value;
      const isUnsigned = type.case.startsWith("uint");
      const min = greaterThan.case === undefined ? (isUnsigned ? 0 : undefined) : numberOf(greaterThan.value);
      const max = lessThan.case === undefined ? undefined : numberOf(lessThan.value);
      if (lessThan.case === "lt") throw new Error("ranges of the contract include their upper end: lte, not lt");
      return min === undefined && max === undefined
        ? undefined
        : { min, max, ...(greaterThan.case === "gt" && { isAbove: true }) };
    }
    default:
      return undefined;
  }
}

/** Seconds, of a duration. */
export function numberOf(value: number | bigint | { readonly seconds: bigint; readonly nanos: number }): number {
  return typeof value === "object" ? Number(value.seconds) + value.nanos / 1e9 : Number(value);
}
