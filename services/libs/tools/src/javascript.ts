// SPDX-License-Identifier: Apache-2.0
import { reachedSentence, type SandboxBackend } from "@whetstone/sandbox";
import { codeParameters, InterpreterTool, type InterpreterToolOptions } from "./interpreter-tool.ts";
import type { Language } from "./language.ts";
import { JAVASCRIPT_DRIVER, JAVASCRIPT_PROGRAM } from "./javascript-driver.ts";

/** Objects may take so much of the memory: beside them there are buffers, code and files. */
const HEAP_SHARE = 0.6;

/** Requests come on descriptor 3, so that the code's own standard input is empty; its errors go where its output goes. */
const START = 'exec 3<&0 </dev/null 2>&1; exec "$@"';

const JAVASCRIPT: Language = {
  program: "node",
  command: (memoryMiB) => ["sh", "-c", START, "sh", ...node(memoryMiB), JAVASCRIPT_PROGRAM, JAVASCRIPT_DRIVER],
  probe: (memoryMiB) => [...node(memoryMiB), "0"],
};

/** Up to the program's text. At level C the settings of OpenSSL cannot be read, without which Node does not start. */
function node(memoryMiB: number): readonly string[] {
  return [
    "env",
    "OPENSSL_CONF=/dev/null",
    "node",
    "--no-warnings",
    `--max-old-space-size=${Math.floor(HEAP_SHARE * memoryMiB)}`,
    "-e",
  ];
}

const WHAT_IT_DOES =
  "Runs JavaScript code in Node and returns what it prints and the value of its last expression. " +
  "Names stay defined from call to call; await and require can be used.";

export class JavaScriptTool extends InterpreterTool {
  readonly name = "javascript";
  readonly description: string;
  readonly parameters = codeParameters('e.g. "const { createHash } = require(\\"node:crypto\\")"');

  constructor(backend: SandboxBackend, options?: InterpreterToolOptions) {
    super(backend, JAVASCRIPT, options);
    this.description = `${WHAT_IT_DOES} ${reachedSentence(options?.reach)}`;
  }
}
