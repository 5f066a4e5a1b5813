// SPDX-License-Identifier: Apache-2.0
import type { AnswerFormat } from "./format.ts";
import { readPythonCalls } from "./python-literal.ts";

/** `[f(a=1), g(b="x")]` as the whole answer: Llama 3.2 and 4. */
export const pythonic: AnswerFormat = {
  name: "pythonic",
  isOf: (template) => template.includes("<|header_start|>") || template.includes("[func_name1("),
  blocks: [
    { open: "<|python_start|>", close: "<|python_end|>", read: readPythonCalls },
    { open: "[", first: true, read: (inner) => readPythonCalls(`[${inner}`) },
  ],
  forced: (name) => `[${name === undefined ? "" : `${name}(`}`,
};
