// SPDX-License-Identifier: Apache-2.0
import { fromJson, type JsonValue } from "@bufbuild/protobuf";
import { type Task, TaskSchema } from "@whetstone/proto/types/v1/types";
import { jsonFaultColumn } from "./json-column.ts";

/**
 * A line of a dataset: a Task in protobuf's JSON form. Whoever names a file may not be allowed to read it, so an error says
 * where it is wrong, and never what is there.
 * @param where  file and line
 */
export function parseTask(text: string, where: string): Task {
  const json = parseJson(text, where);
  try {
    return fromJson(TaskSchema, json);
  } catch (error) {
    throw new Error(`${where}${whyNoTask(text, json, error)}`); // Without its cause, which quotes the line.
  }
}

function parseJson(text: string, where: string): JsonValue {
  try {
    return JSON.parse(text) as JsonValue;
  } catch {
    const column = jsonFaultColumn(text) ?? 1; // Only now: it takes longer than parsing.
    throw new Error(`${where}:${column}: not a task: the line is no JSON from this column on`);
  }
}

const FIELDS = TaskSchema.fields.map(({ localName }) => localName);

function whyNoTask(text: string, json: JsonValue, error: unknown): string {
  if (typeof json !== "object" || json === null || Array.isArray(json)) return ":1: not a task: must be a JSON object";
  const known = new Set(TaskSchema.fields.flatMap(({ name, jsonName }) => [name, jsonName]));
  const unknown = Object.keys(json).find((key) => !known.has(key));
  if (unknown !== undefined)
    return `:${columnOf(text, unknown)}: not a task: a field that a task does not have; it has ${FIELDS.join(", ")}`;
  // The library's message begins with the name of the contract's field, and goes on with what it found there.
  const [, field] =
    /^cannot decode (?:field|message) whetstone\.types\.v1\.([\w.]+)/.exec(String((error as Error).message)) ?? [];
  return `: not a task: ${field ?? "a field"} has a value of another type`;
}

function columnOf(text: string, key: string): number {
  return text.indexOf(JSON.stringify(key)) + 1;
}
