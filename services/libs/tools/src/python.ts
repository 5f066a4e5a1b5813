// SPDX-License-Identifier: Apache-2.0
import { reachedSentence, type SandboxBackend } from "@whetstone/sandbox";
import { codeParameters, InterpreterTool, type InterpreterToolOptions } from "./interpreter-tool.ts";
import type { Language } from "./language.ts";
import { PYTHON_DRIVER } from "./python-driver.ts";

const PYTHON: Language = {
  program: "python3",
  command: () => ["python3", "-u", "-c", PYTHON_DRIVER],
  probe: () => ["python3", "-c", ""],
};

const WHAT_IT_DOES =
  "Runs Python code and returns what it prints and the value of its last expression. " +
  "Names stay defined from call to call.";

export class PythonTool extends InterpreterTool {
  readonly name = "python";
  readonly description: string;
  readonly parameters = codeParameters('e.g. "import math\\nmath.factorial(20)"');

  constructor(backend: SandboxBackend, options?: InterpreterToolOptions) {
    super(backend, PYTHON, options);
    this.description = `${WHAT_IT_DOES} ${reachedSentence(options?.reach)}`;
  }
}
