// SPDX-License-Identifier: Apache-2.0
import { type DescEnum, type DescField, type DescMessage, type DescOneof, ScalarType } from "@bufbuild/protobuf";
import type { CelRule } from "../../services/controller/src/operator/custom-resource.ts";
import { isNeeded, ITEMS, type Rules, rulesOf, TEXT } from "@whetstone/contract/rules";
import { commentOf } from "../contract/comments.ts";

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

const UINT32 = 2 ** 32 - 1;
/** protobuf's JSON form: seconds with up to nine decimals. */
const DURATION = "^[0-9]{1,9}(\\.[0-9]{1,9})?s$";
const WHOLE_NUMBER = "^[0-9]{1,20}$";

/** The schema of a message in protobuf's JSON form, with its comments as descriptions. */
export function schemaOf(message: DescMessage): Schema {
  const known = wellKnown(message.typeName);
  if (known) return known;
  const fields = message.fields.filter((field) => !rulesOf(field).isNotInObject);
  const required = fields.filter((field) => rulesOf(field).isRequired);
  const rules = [...message.oneofs.flatMap(oneofRule), ...immutableRules(message, fields)];
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
  const meaning = commentOf(field) || (field.message && !wellKnown(field.message.typeName) && commentOf(field.message));
  const { defaultValue = "{}" } = rulesOf(field);
  const description = [meaning, defaultValue !== "{}" && `Absent: ${defaultValue}.`].filter(Boolean).join(" ");
  return { ...(description && { description }), ...shapeOf(field) };
}

function shapeOf(field: DescField): Schema {
  const item = { ...itemSchema(field), ...boundsOf(field) };
  const { maxItems = ITEMS } = rulesOf(field);
  if (field.fieldKind === "list") return { type: "array", maxItems, items: item };
  if (field.fieldKind === "map") return { type: "object", maxProperties: maxItems, additionalProperties: item };
  return item;
}

/** Of durations and 64-bit numbers, which are text here, only the controller can judge the range. */
function boundsOf(field: DescField): Schema {
  if (field.scalar === ScalarType.STRING) return textBounds(rulesOf(field));
  if (field.scalar === ScalarType.DOUBLE || field.scalar === ScalarType.UINT32) return rangeBounds(rulesOf(field));
  return {};
}

function textBounds({ pattern, minLength, maxLength, isRequired }: Rules): Schema {
  const fewest = minLength ?? (isRequired && pattern === undefined ? 1 : undefined);
  return {
    ...(fewest !== undefined && { minLength: fewest }),
    ...(maxLength !== undefined && { maxLength }),
    ...(pattern !== undefined && { pattern }),
  };
}

function rangeBounds({ range: { min, max, isAbove } = {} }: Rules): Schema {
  return {
    ...(min !== undefined && { minimum: min }),
    ...(max !== undefined && { maximum: max }),
    ...(isAbove === true && { exclusiveMinimum: true }),
  };
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
  const needed = isNeeded(oneof);
  const count = `[${names.map((name) => `has(self.${name})`).join(", ")}].filter(x, x).size()`;
  return [
    {
      rule: needed ? `${count} == 1` : `${count} <= 1`,
      message: `needs ${needed ? "exactly" : "at most"} one of ${names.join(", ")}`,
    },
  ];
}

/** Rules that compare with the old object, at the messages some of whose fields may change. */
function immutableRules(message: DescMessage, fields: readonly DescField[]): CelRule[] {
  if (!isPartlyMutable(message)) return [];
  const fixed = fields.filter(
    (field) => !rulesOf(field).isMutable && !(field.message && isPartlyMutable(field.message)),
  );
  return fixed.map(({ jsonName: name }) => ({
    rule: `has(self.${name}) == has(oldSelf.${name}) && (!has(self.${name}) || self.${name} == oldSelf.${name})`,
    message: "cannot be changed after submission: submit another job",
    fieldPath: `.${name}`,
  }));
}

function isPartlyMutable(message: DescMessage): boolean {
  return message.fields.some((field) => rulesOf(field).isMutable);
}
