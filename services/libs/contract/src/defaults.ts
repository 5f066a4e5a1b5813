// SPDX-License-Identifier: Apache-2.0
import {
  clone,
  create,
  type DescField,
  type DescMessage,
  type JsonValue,
  mergeFromJson,
  type MessageShape,
  ScalarType,
} from "@bufbuild/protobuf";
import { reflect, type ReflectMessage } from "@bufbuild/protobuf/reflect";
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
  fill(reflect(schema, copy));
  return copy as Filled<MessageShape<Desc>>;
}

function fill(message: ReflectMessage): void {
  for (const field of message.fields) {
    if (!message.isSet(field)) setDefault(message, field);
    if (!message.isSet(field) || !isOurs(field)) continue;
    if (field.fieldKind === "message") fill(message.get(field));
    if (field.fieldKind === "list") for (const item of message.get(field)) fill(item as ReflectMessage);
  }
}

function setDefault(message: ReflectMessage, field: DescField): void {
  const { defaultValue } = rulesOf(field);
  if (defaultValue === undefined) return;
  mergeFromJson(message.desc, message.message, { [field.jsonName]: jsonOf(field, defaultValue) });
}

/** Text, enums and durations are text in JSON, too. */
function jsonOf(field: DescField, text: string): JsonValue {
  const isText = field.enum || field.scalar === ScalarType.STRING || (field.message && !isOurs(field));
  return isText ? text : (JSON.parse(text) as JsonValue);
}

function isOurs(field: DescField): boolean {
  return field.message !== undefined && !field.message.typeName.startsWith("google.protobuf.");
}
