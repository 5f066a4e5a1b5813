// SPDX-License-Identifier: Apache-2.0
import type { AnswerFormat, ReadCall } from "./format.ts";
import { readJsonCall } from "./read-json.ts";

/** `{"name": …, "parameters": {…}}` as the whole answer, several apart by ";": Llama 3.1 to 3.3. */
export const llama3Json: AnswerFormat = {
  name: "llama3_json",
  isOf: (template) => template.includes("<|start_header_id|>") && template.includes('"parameters"'),
  blocks: [
    { open: "<|python_tag|>", read: readCalls },
    { open: "{", first: true, read: (inner) => readCalls(`{${inner}`) },
  ],
  forced: (name) => `{"name": "${name === undefined ? "" : `${name}", "parameters": `}`,
};

function readCalls(text: string): ReadCall[] {
  return objectsIn(text.trim()).map(readJsonCall);
}

/** The text cut at every ";" that stands between two objects. */
function objectsIn(text: string): string[] {
  const found: string[] = [];
  let [depth, start, quoted] = [0, 0, false];
  for (let i = 0; i < text.length; i++) {
    const char = text[i];
    if (quoted && char === "\\") i++;
    else if (char === '"') quoted = !quoted;
    else if (!quoted && char === "{") depth++;
    else if (!quoted && char === "}") depth--;
    else if (!quoted && char === ";" && depth === 0) {
      found.push(text.slice(start, i));
      start = i + 1;
    }
  }
  return [...found, text.slice(start)].map((one) => one.trim()).filter((one) => one !== "");
}
