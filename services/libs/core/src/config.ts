// SPDX-License-Identifier: Apache-2.0
import { z } from "zod";
import { ConfigError, type Violation } from "./errors.ts";

export interface LoadConfigOptions {
  readonly env: Readonly<Record<string, string | undefined>>;
  /** By path; they come before variables. */
  readonly overrides?: Readonly<Record<string, unknown>> | undefined;
  /** Variables with the prefix that belong to somebody else, by full name. */
  readonly ignoreEnv?: readonly string[];
}

const PREFIX = "WHETSTONE_";
/** Kubernetes writes these for every Service of the namespace; a Service named whetstone-x must not break a process. */
const SERVICE_LINK = /_(SERVICE_HOST|SERVICE_PORT(_[A-Z0-9_]+)?|PORT(_\d+_(TCP|UDP)(_(PROTO|PORT|ADDR))?)?)$/;

/**
 * One typed configuration from environment < overrides. `WHETSTONE_FOO_BAR` sets `fooBar`, `WHETSTONE_LOOP__BATCH_GROUPS`
 * sets `loop.batchGroups`. Variables are text; those for numbers, booleans, lists and objects are converted by the schema's type.
 * @throws ConfigError with every violation: unknown keys, missing and wrong values, each by path.
 */
export function loadConfig<S extends z.ZodType>(schema: S, options: LoadConfigOptions): z.output<S> {
  const merged: Record<string, unknown> = {};
  for (const [path, text] of environmentSettings(options)) {
    setPath(merged, path, convert(text, schemaAt(schema, path)));
  }
  for (const [key, value] of Object.entries(options.overrides ?? {})) {
    if (value !== undefined) setPath(merged, key.split("."), value);
  }
  return parseOrThrow(strict(schema), merged, "");
}

/** @throws ConfigError whose paths start with `rootPath`, such as `loop.batchGroups`. Nested objects must be strict themselves. */
export function parseOrThrow<S extends z.ZodType>(schema: S, value: unknown, rootPath: string): z.output<S> {
  const result = schema.safeParse(value);
  if (result.success) return result.data;
  throw new ConfigError(result.error.issues.flatMap((issue) => violationsOf(issue, rootPath)));
}

function violationsOf(issue: z.core.$ZodIssue, rootPath: string): Violation[] {
  const path = formatPath(rootPath, issue.path);
  if (issue.code === "unrecognized_keys") {
    return issue.keys.map((key) => ({ path: formatPath(path, [key]), reason: "unknown setting" }));
  }
  return [{ path, reason: issue.message }];
}

function formatPath(root: string, keys: readonly PropertyKey[]): string {
  return keys.reduce<string>((path, key) => {
    if (typeof key === "number") return `${path}[${key}]`;
    return path === "" ? String(key) : `${path}.${String(key)}`;
  }, root);
}

function* environmentSettings(options: LoadConfigOptions): Generator<[string[], string]> {
  for (const [name, text] of Object.entries(options.env)) {
    if (!name.startsWith(PREFIX) || text === undefined) continue;
    if (SERVICE_LINK.test(name) && isServiceLink(name, text)) continue;
    if (options.ignoreEnv?.includes(name)) continue;
    yield [name.slice(PREFIX.length).split("__").map(camelCase), text];
  }
}

/** `…_PORT=tcp://10.0.0.1:50051` is a link; `…_PORT=50051` is a setting. */
function isServiceLink(name: string, text: string): boolean {
  return name.includes("_SERVICE_") || /^(tcp|udp):\/\//.test(text) || /_PORT_\d+_/.test(name);
}

function camelCase(name: string): string {
  return name.toLowerCase().replace(/_+([a-z0-9])/g, (_, letter: string) => letter.toUpperCase());
}

function setPath(target: Record<string, unknown>, path: readonly string[], value: unknown): void {
  const [head = "", ...rest] = path;
  if (rest.length === 0) {
    target[head] = value;
    return;
  }
  const child = target[head];
  const next = typeof child === "object" && child !== null ? { ...child } : {};
  target[head] = next;
  setPath(next, rest, value);
}

function strict<S extends z.ZodType>(schema: S): S {
  const open = schema instanceof z.ZodObject && schema.def.catchall === undefined;
  return (open ? schema.strict() : schema) as S;
}

function unwrap(schema: unknown): z.core.$ZodType | undefined {
  let current = schema as { def?: { type: string; innerType?: unknown; in?: unknown } } | undefined;
  while (current?.def !== undefined && (current.def.innerType !== undefined || current.def.type === "pipe")) {
    current = (current.def.innerType ?? current.def.in) as typeof current;
  }
  return current as z.core.$ZodType | undefined;
}

function schemaAt(schema: unknown, path: readonly string[]): z.core.$ZodType | undefined {
  const inner = unwrap(schema);
  const [head, ...rest] = path;
  if (head === undefined) return inner;
  return inner instanceof z.ZodObject ? schemaAt((inner.shape as Record<string, unknown>)[head], rest) : undefined;
}

/** Text that does not convert stays text, so that the schema's own message names what was wanted. */
function convert(text: string, schema: z.core.$ZodType | undefined): unknown {
  switch (schema?._zod.def.type) {
    case "number":
      return text.trim() === "" || Number.isNaN(Number(text)) ? text : Number(text);
    case "boolean":
      return { true: true, false: false, "1": true, "0": false }[text.trim().toLowerCase()] ?? text;
    case "array":
      return text.trim().startsWith("[") ? fromJson(text) : splitList(text, schema);
    case "object":
    case "record":
      return fromJson(text);
    default:
      return text;
  }
}

function splitList(text: string, schema: z.core.$ZodType): unknown[] {
  const element = unwrap((schema as z.ZodArray).element);
  const items = text.split(",").map((item) => item.trim());
  return items.filter((item) => item !== "").map((item) => convert(item, element));
}

function fromJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}
