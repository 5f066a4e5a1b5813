// SPDX-License-Identifier: Apache-2.0
import { type DescEnum, type DescField, type DescMessage, type DescOneof, ScalarType } from "@bufbuild/protobuf";
import { BOUNDS, MUTABLE, NEEDED_ONEOFS, OMITTED, REQUIRED } from "./bounds.ts";
import { commentOf } from "./comments.ts";

export interface CelRule {
  readonly rule: string;
  readonly message: string;
  readonly fieldPath?: string;
}

/** The part of OpenAPI v3 that Kubernetes takes for custom resources ("structural"). */
export interface Schema {
  readonly type?: "object" | "array" | "string" | "integer" | "number" | "boolean";
  readonly description?: string;
  readonly properties?: Readonly<Record<string, Schema>>;
  readonly additionalProperties?: Schema;
  readonly items?: Schema;
  readonly required?: readonly string[];
  readonly enum?: readonly string[];
  readonly format?: string;
  readonly pattern?: string;
  readonly minimum?: number;
  readonly maximum?: number;
  readonly maxLength?: number;
  readonly maxItems?: number;
  readonly "x-kubernetes-int-or-string"?: true;
  readonly "x-kubernetes-preserve-unknown-fields"?: true;
  readonly "x-kubernetes-validations"?: readonly CelRule[];
  readonly [extra: string]: unknown;
}

/** Longest text where no bound says otherwise: the API server needs one to know what a rule costs at most. */
const TEXT = 1024;
const ITEMS = 64;
const UINT32 = 2 ** 32 - 1;
/** protobuf's JSON form: seconds with up to nine decimals. */
const DURATION = "^[0-9]{1,9}(\\.[0-9]{1,9})?s$";
const WHOLE_NUMBER = "^[0-9]{1,20}$";

const idOf = (desc: { readonly typeName: string }): string => desc.typeName.replace(/^whetstone\./, "");
const keyOf = (field: DescField): string => `${idOf(field.parent)}.${field.name}`;

/** The schema of a message in protobuf's JSON form, with its comments as descriptions. */
export function schemaOf(message: DescMessage): Schema {
  const known = wellKnown(message.typeName);
  if (known) return known;
  const fields = message.fields.filter((field) => !OMITTED.includes(keyOf(field)));
  const required = fields.filter((field) => REQUIRED[idOf(message)]?.includes(field.name));
  const rules = [...message.oneofs.flatMap(oneofRule), ...fields.flatMap(immutableRule)];
  return {
    type: "object",
    ...(required.length > 0 && { required: required.map((field) => field.jsonName) }),
    properties: Object.fromEntries(fields.map((field) => [field.jsonName, fieldSchema(field)])),
    ...(rules.length > 0 && { "x-kubernetes-validations": rules }),
  };
}

function wellKnown(typeName: string): Schema | undefined {
  if (typeName === "google.protobuf.Struct") return { type: "object", "x-kubernetes-preserve-unknown-fields": true };
  if (typeName === "google.protobuf.Duration") return { type: "string", pattern: DURATION, maxLength: 20 };
  if (typeName === "google.protobuf.Timestamp") return { type: "string", format: "date-time", maxLength: 40 };
  if (typeName.startsWith("google.protobuf.")) throw new Error(`${typeName} has no schema yet: add it to wellKnown`);
  return undefined;
}

function fieldSchema(field: DescField): Schema {
  const description =
    commentOf(field) || (field.message && !wellKnown(field.message.typeName) && commentOf(field.message));
  const { maxItems, ...bound } = BOUNDS[keyOf(field)] ?? {};
  return { ...(description && { description }), ...shapeOf(field, bound, maxItems ?? ITEMS) };
}

function shapeOf(field: DescField, bound: object, maxItems: number): Schema {
  if (field.fieldKind === "list") return { type: "array", maxItems, items: { ...itemSchema(field), ...bound } };
  if (field.fieldKind === "map")
    return { type: "object", maxProperties: maxItems, additionalProperties: itemSchema(field) };
  return { ...itemSchema(field), ...bound };
}

function itemSchema(field: DescField): Schema {
  if (field.message) return schemaOf(field.message);
  if (field.enum) return enumSchema(field.enum);
  return scalarSchema(field.scalar ?? ScalarType.STRING);
}

function enumSchema(desc: DescEnum): Schema {
  return { type: "string", enum: desc.values.map((value) => value.name) };
}

function scalarSchema(scalar: ScalarType): Schema {
  switch (scalar) {
    case ScalarType.BOOL:
      return { type: "boolean" };
    case ScalarType.STRING:
      return { type: "string", maxLength: TEXT };
    case ScalarType.DOUBLE:
    case ScalarType.FLOAT:
      return { type: "number" };
    case ScalarType.UINT32:
      return { type: "integer", format: "int64", minimum: 0, maximum: UINT32 };
    case ScalarType.UINT64:
      // JSON numbers lose digits beyond 2^53, so protobuf writes these as text and reads both.
      return {
        "x-kubernetes-int-or-string": true,
        anyOf: [{ type: "integer" }, { type: "string" }],
        minimum: 0,
        pattern: WHOLE_NUMBER,
        maxLength: 20,
      };
    default:
      throw new Error(`fields of type ${ScalarType[scalar]} have no schema yet: add it to scalarSchema`);
  }
}

function oneofRule(oneof: DescOneof): CelRule[] {
  const names = oneof.fields.map((field) => field.jsonName);
  const isNeeded = NEEDED_ONEOFS.includes(`${idOf(oneof.parent)}.${oneof.name}`);
  const count = `[${names.map((name) => `has(self.${name})`).join(", ")}].filter(x, x).size()`;
  return [
    {
      rule: isNeeded ? `${count} == 1` : `${count} <= 1`,
      message: `needs ${isNeeded ? "exactly" : "at most"} one of ${names.join(", ")}`,
    },
  ];
}

/** Rules that compare with the old object, at the messages some of whose fields may change. */
function immutableRule(field: DescField): CelRule[] {
  const parents = [...MUTABLE].map((key) => key.slice(0, key.lastIndexOf(".")));
  if (!parents.includes(idOf(field.parent)) || MUTABLE.includes(keyOf(field))) return [];
  if (field.message && parents.includes(idOf(field.message))) return [];
  const name = field.jsonName;
  return [
    {
      rule: `has(self.${name}) == has(oldSelf.${name}) && (!has(self.${name}) || self.${name} == oldSelf.${name})`,
      message: "cannot be changed after submission: submit another job",
      fieldPath: `.${name}`,
    },
  ];
}

/** Keys of the tables in bounds.ts that the contract does not have. */
export function unknownKeys(messages: readonly DescMessage[]): string[] {
  const fields = new Set(messages.flatMap((message) => message.fields.map(keyOf)));
  const oneofs = new Set(messages.flatMap((m) => m.oneofs.map((oneof) => `${idOf(m)}.${oneof.name}`)));
  const required = Object.entries(REQUIRED).flatMap(([id, names]) => names.map((name) => `${id}.${name}`));
  const used = [...Object.keys(BOUNDS), ...required, ...OMITTED, ...MUTABLE];
  return [...used.filter((key) => !fields.has(key)), ...NEEDED_ONEOFS.filter((key) => !oneofs.has(key))];
}
