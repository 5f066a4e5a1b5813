// SPDX-License-Identifier: Apache-2.0
import { splitThinking } from "@whetstone/sdk";

const BLOCK = /^[ \t]*(`{3,}|~{3,})[ \t]*([\w+#.-]*)[^\n]*\n([\s\S]*?)^[ \t]*\1[ \t]*$/gmu;
const PYTHON = new Set(["python", "python3", "py"]);

/** The last block of Python, else the last block that names no language. Undefined: the text has no program. */
export function programOf(text: string): string | undefined {
  const blocks = [...splitThinking(text).answer.matchAll(BLOCK)].map(([, , language = "", body = ""]) => ({
    language: language.toLowerCase(),
    body,
  }));
  const ofPython = blocks.findLast(({ language }) => PYTHON.has(language));
  const program = (ofPython ?? blocks.findLast(({ language }) => language === ""))?.body;
  return program?.trim() === "" ? undefined : program;
}
