// SPDX-License-Identifier: Apache-2.0
// Tools of a response. Chat templates know functions only, so that one in a namespace is a function with both names there.
import { badField } from "../../completion/api-error.ts";
import type { ToolChoice, Tools } from "../../completion/request.ts";
import type { Fields } from "../read-fields.ts";
import { requireTool } from "../read-fields.ts";
import { parseTools } from "../read-tools.ts";

/** A function as the client named it. */
export interface NamedFunction {
  readonly name: string;
  readonly namespace?: string;
}

export interface ResponseTools {
  readonly tools: Tools;
  /** The functions of namespaces, by their names in the template. */
  readonly namespaced: ReadonlyMap<string, NamedFunction>;
}

/** @throws ApiError 400 with the path of the bad field. */
export function parseResponseTools(value: unknown): ResponseTools {
  const namespaced = new Map<string, NamedFunction>();
  const tools = (parseTools(value) as Fields[] | undefined)?.flatMap((tool, i) =>
    tool["type"] === "namespace" ? parseNamespace(tool, `tools.${i}`, namespaced) : [parseFunction(tool, `tools.${i}`)],
  );
  const names = tools?.map((tool) => tool.function.name) ?? [];
  const twice = names.find((name, i) => namespaced.has(name) && names.indexOf(name) !== i);
  if (twice !== undefined) throw badField("tools", `two functions are called ${twice} in the chat template`);
  return { tools, namespaced };
}

/** Templates and formats of calls take letters, digits, "_" and "-" in every name. */
export function templateName(namespace: unknown, name: string): string {
  return typeof namespace === "string" ? `${namespace}__${name}` : name;
}

export function parseToolChoice(value: unknown, tools: Tools): ToolChoice {
  if (value === undefined || value === null || value === "auto") return "auto";
  if (value === "none" || (value === "required" && tools !== undefined)) return value;
  const { name, namespace } = value as Fields;
  return requireTool("tool_choice", typeof name === "string" ? templateName(namespace, name) : name, tools);
}

interface TemplateFunction {
  readonly type: "function";
  readonly function: { readonly name: string; readonly description?: unknown; readonly parameters: unknown };
}

function parseFunction({ type, name, description, parameters }: Fields, path: string): TemplateFunction {
  if (typeof type !== "string") throw badField(`${path}.type`, "must be a string");
  if (type !== "function")
    throw badField(`${path}.type`, `${type} does not run here: turn it off in the agent, or give it a function`);
  if (typeof name !== "string") throw badField(`${path}.name`, "must be a string");
  const described = description === undefined || description === null ? {} : { description };
  return { type, function: { name, ...described, parameters: parameters ?? {} } };
}

function parseNamespace(
  { name: namespace, description: about, tools }: Fields,
  path: string,
  namespaced: Map<string, NamedFunction>,
): TemplateFunction[] {
  if (typeof namespace !== "string") throw badField(`${path}.name`, "must be a string");
  if (!Array.isArray(tools)) throw badField(`${path}.tools`, "must be an array");
  return tools.map((tool: unknown, i) => {
    const at = `${path}.tools.${i}`;
    if (typeof tool !== "object" || tool === null) throw badField(at, "must be an object");
    const { type, function: own } = parseFunction(tool as Fields, at);
    const name = templateName(namespace, own.name);
    namespaced.set(name, { namespace, name: own.name });
    const description = [about, own.description].filter((text) => typeof text === "string").join("\n");
    return { type, function: { ...own, name, description } };
  });
}
