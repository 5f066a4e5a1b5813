// SPDX-License-Identifier: Apache-2.0
import {
  clone,
  create,
  type DescField,
  type DescMessage,
  isFieldSet,
  type JsonValue,
  mergeFromJson,
  type Message,
  type MessageShape,
  ScalarType,
} from "@bufbuild/protobuf";
import type { FilledFields } from "./generated/filled-fields.ts";
import { rulesOf } from "./rules.ts";

/** A message of which every field that has a default is there, at every depth. */
export type Filled<M> = M extends { readonly $typeName: infer Name extends `whetstone.${string}` }
  ? FilledMessage<M, Name extends keyof FilledFields ? FilledFields[Name] : never>
  : M extends { readonly $typeName: string }
    ? M
    : M extends readonly (infer Item)[]
      ? Filled<Item>[]
      : M extends { readonly case: infer Case; readonly value: infer Value }
        ? { case: Case; value: Filled<Value> }
        : M;
type FilledMessage<M, Names> = {
  [K in keyof M as K extends Names ? K : never]-?: Filled<Exclude<M[K], undefined>>;
} & { [K in keyof M as K extends Names ? never : K]: Filled<M[K]> };

/** A copy with every default of the contract filled in, at every depth. What is absent then has a meaning by its absence. */
export function withDefaults<Desc extends DescMessage>(
  schema: Desc,
  message: MessageShape<Desc> = create(schema),
): Filled<MessageShape<Desc>> {
  const copy = clone(schema, message);
  fill(schema, copy);
  return copy as Filled<MessageShape<Desc>>;
}

/** What can be done to a field, worked out once: a rollout's settings are filled in for every episode. */
interface FillStep {
  readonly field: DescField;
  /** As a message holds it. Absent: the field has no default. */
  readonly value?: unknown;
  /** A message whose own fields may have defaults. */
  readonly inner?: DescMessage;
}

type Fields = Record<string, unknown>;
const steps = new WeakMap<DescMessage, readonly FillStep[]>();

function fill(desc: DescMessage, message: Message): void {
  for (const { field, value, inner } of stepsOf(desc)) {
    if (value !== undefined && !isFieldSet(message, field))
      (message as unknown as Fields)[field.localName] = copyOf(field, value);
    if (inner === undefined || !isFieldSet(message, field)) continue;
    const held = heldBy(message, field);
    for (const one of Array.isArray(held) ? held : [held]) fill(inner, one as Message);
  }
}

function stepsOf(desc: DescMessage): readonly FillStep[] {
  const known = steps.get(desc);
  if (known) return known;
  const made: FillStep[] = [];
  steps.set(desc, made); // Before its fields: a message may hold its own kind.
  for (const field of desc.fields) {
    const { defaultValue } = rulesOf(field);
    const value = defaultValue === undefined ? undefined : valueOf(desc, field, defaultValue);
    const inner = isOurs(field) && field.fieldKind !== "map" ? field.message : undefined;
    if (value !== undefined || inner !== undefined) made.push({ field, value, ...(inner && { inner }) });
  }
  return made;
}

/** Of a choice between several, the one that was made. */
function heldBy(message: Message, { localName, oneof }: DescField): unknown {
  const fields = message as unknown as Fields;
  return oneof ? (fields[oneof.localName] as { value: unknown }).value : fields[localName];
}

function valueOf(desc: DescMessage, field: DescField, text: string): unknown {
  const message = mergeFromJson(desc, create(desc), { [field.jsonName]: jsonOf(field, text) });
  return heldBy(message, field);
}

function copyOf({ message }: DescField, value: unknown): unknown {
  return message ? clone(message, value as Message) : value;
}

/** Text, enums and durations are text in JSON, too. */
function jsonOf(field: DescField, text: string): JsonValue {
  const isText = field.enum || field.scalar === ScalarType.STRING || (field.message && !isOurs(field));
  return isText ? text : (JSON.parse(text) as JsonValue);
}

function isOurs(field: DescField): boolean {
  return field.message !== undefined && !field.message.typeName.startsWith("google.protobuf.");
}
