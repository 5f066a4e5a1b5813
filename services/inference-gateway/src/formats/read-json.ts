// SPDX-License-Identifier: Apache-2.0
// Calls that are written in JSON, and what becomes of those that are not what they should be.
import type { ReadCall } from "./format.ts";

/** `{"name": …, "arguments": {…}}`; Llama writes `parameters`. */
export function readJsonCall(text: string): ReadCall {
  const value = parseJson(text);
  if (!isObject(value)) return malformedCall(nameIn(text), text);
  const name = typeof value["name"] === "string" && value["name"] !== "" ? value["name"] : undefined;
  return readArguments(name, value["arguments"] ?? value["parameters"] ?? {}, text);
}

/** A call whose arguments stand by themselves. */
export function readCallOf(name: string, args: string, id?: string): ReadCall {
  const value = args.trim() === "" ? {} : parseJson(args);
  const call = value === undefined ? malformedCall(name, args) : readArguments(name, value, args);
  return id === undefined ? call : { ...call, id };
}

export function malformedCall(name: string | undefined, text: string): ReadCall {
  return { name: name === "" ? undefined : name, arguments: text.trim(), malformed: true };
}

export function goodCall(name: string, args: Readonly<Record<string, unknown>>): ReadCall {
  return { name, arguments: JSON.stringify(args), malformed: false };
}

/** Some models write the arguments as a text that holds JSON. */
function readArguments(name: string | undefined, value: unknown, text: string): ReadCall {
  const args = typeof value === "string" ? parseJson(value) : value;
  if (name === undefined) return malformedCall(undefined, text);
  if (isObject(args)) return goodCall(name, args);
  return malformedCall(name, typeof value === "string" ? value : JSON.stringify(value));
}

export function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

function nameIn(text: string): string | undefined {
  return /"name"\s*:\s*"([^"\\]{1,128})"/.exec(text)?.[1];
}
