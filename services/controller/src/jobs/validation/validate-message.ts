// SPDX-License-Identifier: Apache-2.0
import { type DescField, type DescMessage, type Message, ScalarType } from "@bufbuild/protobuf";
import { reflect, type ReflectMessage } from "@bufbuild/protobuf/reflect";
import { type Duration, type Struct, StructSchema, type Value, ValueSchema } from "@bufbuild/protobuf/wkt";
import { ITEMS, rulesOf, TEXT } from "@whetstone/contract/rules";
import type { Findings } from "./violation.ts";

/** Deepest nesting of free-form arguments. */
const DEPTH = 32;
/** 10,000 years, as protobuf bounds a Duration. */
const DURATION_S = 315_576_000_000n;

/**
 * What holds for every field of a message, found by its descriptor, so that new fields are covered: enum numbers are
 * known, numbers finite, durations well-formed, texts and lists bounded, and no field is unknown here (I11). A path that
 * has a violation already gets no second one.
 */
export function checkMessage(found: Findings, schema: DescMessage, message: Message): void {
  checkFields(found, "", reflect(schema, message));
}

function checkFields(found: Findings, path: string, message: ReflectMessage): void {
  for (const { no } of message.getUnknown() ?? [])
    report(found, path, `has field number ${no}, which this controller does not know: it may be older than the client`);
  for (const field of message.fields) {
    const at = path === "" ? field.localName : `${path}.${field.localName}`;
    if (message.isSet(field)) checkField(found, at, field, message.get(field));
  }
}

function checkField(found: Findings, path: string, field: DescField, value: unknown): void {
  if (field.fieldKind === "map") {
    for (const [key, item] of value as Map<string, unknown>) checkOne(found, `${path}.${key}`, field, item);
    return;
  }
  if (field.fieldKind !== "list") return checkOne(found, path, field, value);
  const items = [...(value as Iterable<unknown>)];
  if (items.length > ITEMS) return report(found, path, `must have at most ${ITEMS} members, has ${items.length}`);
  items.forEach((item, index) => checkOne(found, `${path}[${index}]`, field, item));
}

function checkOne(found: Findings, path: string, field: DescField, value: unknown): void {
  if (field.message) return checkNested(found, path, value as ReflectMessage);
  if (field.enum) {
    if (field.enum.value[value as number] !== undefined) return;
    const known = field.enum.values.map(({ name, number }) => `${name} (${number})`).join(", ");
    return report(found, path, `${String(value)} is no value of ${field.enum.name}; known: ${known}`);
  }
  if (field.scalar === ScalarType.STRING) checkText(found, path, field, value as string);
  if (typeof value === "number") checkNumber(found, path, value);
}

function checkNested(found: Findings, path: string, message: ReflectMessage): void {
  switch (message.desc.typeName) {
    case "google.protobuf.Duration":
      return checkDuration(found, path, message.message as Duration);
    case StructSchema.typeName:
      return checkStruct(found, path, message.message as Struct, 1);
    case ValueSchema.typeName:
      return checkValue(found, path, message.message as Value, 1);
    default:
      return checkFields(found, path, message);
  }
}

function checkStruct(found: Findings, path: string, { fields }: Struct, depth: number): void {
  if (depth > DEPTH) return report(found, path, `is nested deeper than ${DEPTH}`);
  for (const [name, value] of Object.entries(fields)) checkValue(found, `${path}.${name}`, value, depth);
}

function checkValue(found: Findings, path: string, { kind }: Value, depth: number): void {
  if (kind.case === "numberValue") checkNumber(found, path, kind.value);
  if (kind.case === "structValue") checkStruct(found, path, kind.value, depth + 1);
  if (kind.case !== "listValue") return;
  if (depth >= DEPTH) return report(found, path, `is nested deeper than ${DEPTH}`);
  kind.value.values.forEach((item, index) => checkValue(found, `${path}[${index}]`, item, depth + 1));
}

function checkText(found: Findings, path: string, field: DescField, text: string): void {
  const longest = rulesOf(field).maxLength ?? TEXT;
  if (text.length > longest) report(found, path, `must have at most ${longest} characters, has ${text.length}`);
  if (text.includes("\0")) report(found, path, "must not have the character NUL");
}

function checkNumber(found: Findings, path: string, value: number): void {
  if (!Number.isFinite(value)) report(found, path, `must be a finite number, got ${value}`);
}

/** Protobuf's own rules; what else a duration may be, its field says. */
function checkDuration(found: Findings, path: string, { seconds, nanos }: Duration): void {
  const isWhole = Math.abs(nanos) < 1e9 && (seconds === 0n || nanos === 0 || seconds > 0n === nanos > 0);
  const isShort = seconds >= -DURATION_S && seconds <= DURATION_S;
  if (!isWhole || !isShort) report(found, path, `is no duration: ${seconds} s and ${nanos} ns`);
}

function report(found: Findings, path: string, reason: string): void {
  if (!found.has(path)) found.check(path, false, reason);
}
