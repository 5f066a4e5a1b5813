// SPDX-License-Identifier: Apache-2.0
// Readers of the fields that change a model's own distribution. Each throws ApiError 400 with the field's path.
import { badField } from "../completion/api-error.ts";
import type { AnswerForm, LogitChanges } from "../completion/logit-changes.ts";
import type { ToolChoice, Tools } from "../completion/request.ts";
import { type Fields, number } from "./read-fields.ts";

const MAX_BIASES = 1024;
const MAX_BIAS = 100;
/** Of a schema as JSON. A larger one takes an engine seconds to prepare. */
const MAX_SCHEMA_CHARS = 100_000;

/** Undefined: nothing is asked for. Neutral values ask for nothing. */
export function parseLogits(fields: Fields, form?: AnswerForm): LogitChanges | undefined {
  const asked = {
    presencePenalty: unless(0, number(fields, "presence_penalty", -2, 2)),
    frequencyPenalty: unless(0, number(fields, "frequency_penalty", -2, 2)),
    repetitionPenalty: unless(1, number(fields, "repetition_penalty", 0.01, 100)),
    logitBias: parseBias(fields["logit_bias"]),
    form,
  };
  return Object.values(asked).some((value) => value !== undefined) ? asked : undefined;
}

function unless(neutral: number, value: number | undefined): number | undefined {
  return value === neutral ? undefined : value;
}

function parseBias(value: unknown): Record<string, number> | undefined {
  if (value === undefined || value === null) return undefined;
  if (typeof value !== "object" || Array.isArray(value)) throw badField("logit_bias", "must be an object");
  const entries = Object.entries(value);
  if (entries.length > MAX_BIASES) throw badField("logit_bias", `at most ${MAX_BIASES} tokens`);
  for (const [id, bias] of entries) {
    if (!/^\d{1,9}$/.test(id)) throw badField(`logit_bias.${id}`, "must be named by a token id");
    const isFit = typeof bias === "number" && Math.abs(bias) <= MAX_BIAS;
    if (!isFit) throw badField(`logit_bias.${id}`, `must be a number between -${MAX_BIAS} and ${MAX_BIAS}`);
  }
  return entries.length === 0 ? undefined : (value as Record<string, number>);
}

/**
 * The form that an answer must have: `{"type": "text" | "json_object" | "json_schema", …}`. A form leaves no room for calls.
 * @param path  of the value: "response_format" or "text.format".
 * @param schemaOf  where the dialect keeps the schema of "json_schema".
 */
export function parseForm(
  path: string,
  value: unknown,
  { schemaOf, tools, toolChoice }: { schemaOf: (value: Fields) => unknown; tools: Tools; toolChoice: ToolChoice },
): AnswerForm | undefined {
  if (value === undefined || value === null) return undefined;
  if (typeof value !== "object" || Array.isArray(value)) throw badField(path, "must be an object");
  const { type } = value as Fields;
  if (type === "text") return undefined;
  if (type !== "json_object" && type !== "json_schema") {
    throw badField(`${path}.type`, 'must be "text", "json_object" or "json_schema"');
  }
  if (tools !== undefined && toolChoice !== "none") {
    throw badField(path, 'an answer in this form cannot call tools; leave the tools out, or send tool_choice "none"');
  }
  return type === "json_object"
    ? { kind: "json" }
    : { kind: "schema", schema: parseSchema(path, schemaOf(value as Fields)) };
}

function parseSchema(path: string, schema: unknown): object {
  if (typeof schema !== "object" || schema === null || Array.isArray(schema)) {
    throw badField(path, "has no JSON schema that is an object");
  }
  if (JSON.stringify(schema).length > MAX_SCHEMA_CHARS) {
    throw badField(path, `the schema has more than ${MAX_SCHEMA_CHARS} characters`);
  }
  return schema;
}
