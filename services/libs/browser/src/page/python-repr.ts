// SPDX-License-Identifier: Apache-2.0
/** How Python's `repr` writes a value of JSON. */
export function pythonRepr(value: unknown): string {
  if (typeof value === "string") return quoted(value);
  if (typeof value === "boolean") return value ? "True" : "False";
  if (value === null || value === undefined) return "None";
  if (Array.isArray(value)) return `[${value.map(pythonRepr).join(", ")}]`;
  if (typeof value === "object") {
    const entries = Object.entries(value).map(([key, each]) => `${quoted(key)}: ${pythonRepr(each)}`);
    return `{${entries.join(", ")}}`;
  }
  return JSON.stringify(value);
}

const ESCAPES: Readonly<Record<string, string>> = { "\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t" };
/** What Python does not print as it is: controls, formats, surrogates, private and unassigned characters, separators but the space. */
const UNPRINTABLE = /[\\\p{Cc}\p{Cf}\p{Cs}\p{Co}\p{Cn}\p{Zl}\p{Zp}]|(?! )\p{Zs}/gu;

/** In single quotes, unless there are such and no double ones. */
function quoted(text: string): string {
  const quote = text.includes("'") && !text.includes('"') ? '"' : "'";
  const escaped = text.replaceAll(UNPRINTABLE, (found) => ESCAPES[found] ?? byNumber(found.codePointAt(0) ?? 0));
  return quote + (quote === "'" ? escaped.replaceAll("'", "\\'") : escaped) + quote;
}

function byNumber(point: number): string {
  const hex = point.toString(16);
  if (point < 0x100) return `\\x${hex.padStart(2, "0")}`;
  return point < 0x10000 ? `\\u${hex.padStart(4, "0")}` : `\\U${hex.padStart(8, "0")}`;
}
