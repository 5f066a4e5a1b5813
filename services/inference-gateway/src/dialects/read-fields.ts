// SPDX-License-Identifier: Apache-2.0
// Readers of a request's fields for every dialect. Each throws ApiError 400 with the field's path.
import { badField } from "../completion/api-error.ts";
import type { LogitChanges } from "../completion/logit-changes.ts";
import {
  type SamplingAsked,
  schemasOf,
  type ToolChoice,
  type Tools,
  withBoundedSupport,
} from "../completion/request.ts";

export type Fields = Record<string, unknown>;

/** The fields of a body that is a JSON object. */
export function parseFields(body: unknown): Fields {
  if (typeof body !== "object" || body === null || Array.isArray(body)) throw badField("body", "must be a JSON object");
  return body as Fields;
}

/** The policy that a request names. */
export function parseModel(fields: Fields): string {
  const model = fields["model"];
  if (typeof model !== "string" || model === "") throw badField("model", "must name a policy, see GET /v1/models");
  return model;
}

/** False when it is missing. */
export function flag(fields: Fields, name: string): boolean {
  const value = fields[name];
  if (value === undefined || value === null) return false;
  if (typeof value !== "boolean") throw badField(name, "must be true or false");
  return value;
}

/** Undefined when it is missing. */
export function number(fields: Fields, name: string, low: number, high: number): number | undefined {
  const value = fields[name];
  if (value === undefined || value === null) return undefined;
  const inside = typeof value === "number" && value >= low && value <= high;
  if (!inside) throw badField(name, `must be a number between ${low} and ${high}`);
  return value;
}

/** As `number`, whole. */
export function integer(fields: Fields, name: string, low: number, high = Number.MAX_SAFE_INTEGER): number | undefined {
  const value = number(fields, name, low, high);
  if (value !== undefined && !Number.isInteger(value)) throw badField(name, "must be a whole number");
  return value;
}

/** The choice of a tool that there is. */
export function requireTool(path: string, name: unknown, tools: Tools): ToolChoice {
  if (tools === undefined) throw badField(path, "there are no tools to choose from");
  if (typeof name !== "string" || schemasOf(tools)?.has(name) !== true) {
    throw badField(path, 'must be "auto", "none", "required", or name one of the tools');
  }
  return { name };
}

const MAX_STOPS = 16;
const MAX_STOP_CHARS = 256;

/** Strings that end an answer: one, or a list of them. */
export function stopStrings(fields: Fields, name: string): string[] {
  const value = fields[name];
  if (value === undefined || value === null || value === "") return [];
  const list: unknown[] = Array.isArray(value) ? value : [value];
  if (list.length > MAX_STOPS) throw badField(name, `at most ${MAX_STOPS} strings`);
  return list.map((one, i) => {
    const isFit = typeof one === "string" && one !== "" && one.length <= MAX_STOP_CHARS;
    if (!isFit)
      throw badField(
        Array.isArray(value) ? `${name}.${i}` : name,
        `must be a string of 1 to ${MAX_STOP_CHARS} characters`,
      );
    return one;
  });
}

/** How tokens are drawn, as every dialect names it. @param logits  what the dialect has beyond that. */
export function parseDrawing(fields: Fields, maxTokens: number | undefined, logits?: LogitChanges): SamplingAsked {
  const topP = number(fields, "top_p", 0, 1);
  if (topP === 0) throw badField("top_p", "must be greater than 0");
  return withBoundedSupport({
    temperature: number(fields, "temperature", 0, 2),
    topP,
    // vLLM writes "off" as -1, our contract as 0.
    topK: fields["top_k"] === -1 ? 0 : integer(fields, "top_k", 0),
    minP: number(fields, "min_p", 0, 1),
    maxTokens,
    seed: integer(fields, "seed", 0),
    logits,
  });
}

/** Whether a stream's last event tells the tokens. */
export function includeUsage(options: unknown): boolean {
  if (options === undefined || options === null) return false;
  if (typeof options !== "object" || Array.isArray(options)) throw badField("stream_options", "must be an object");
  return (options as Fields)["include_usage"] === true;
}
