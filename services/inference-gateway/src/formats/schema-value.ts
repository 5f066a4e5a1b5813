// SPDX-License-Identifier: Apache-2.0
// Formats in XML write every argument as text; what type it has, the tool's schema says.
import { parseJson } from "./read-json.ts";
import type { ToolSchemas } from "./format.ts";

/** A text as a value of the type that the schema gives to the argument; the text itself where it is none. */
export function schemaValue(tools: ToolSchemas, tool: string, argument: string, text: string): unknown {
  const types = typesOf(tools.get(tool), argument);
  if (types.includes("string")) return text;
  const value = parseJson(text.trim()) ?? python(text.trim());
  return value === undefined ? text : value;
}

/** Models write Python's words where a template showed them none. */
function python(text: string): unknown {
  return ({ True: true, False: false, None: null } as Record<string, unknown>)[text];
}

/** Without a schema a text stays one. */
function typesOf(schema: unknown, argument: string): unknown[] {
  const properties = (
    schema as { properties?: Record<string, { type?: unknown; anyOf?: { type?: unknown }[] }> } | null
  )?.properties;
  const property = properties?.[argument];
  if (property === undefined) return ["string"];
  const types = [property.type ?? property.anyOf?.map(({ type }) => type)].flat();
  return types.every((type) => type === undefined) ? ["any"] : types;
}
