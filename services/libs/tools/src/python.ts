// SPDX-License-Identifier: Apache-2.0
import { type SandboxBackend, SandboxError } from "@whetstone/sandbox";
import { EpisodeError, type Info } from "@whetstone/sdk";
import { PythonInterpreter, type PythonInterpreterOptions } from "./python-interpreter.ts";
import { Tool, type ToolRunOptions } from "./tool.ts";

export interface PythonToolOptions extends PythonInterpreterOptions {
  /** Of one call; at least two seconds less than the environment's deadline of a call, so that names can be kept. Default 20,000. */
  readonly timeoutMs?: number | undefined;
}

/** Runs code in an interpreter that belongs to one episode, and is closed with it. */
export class PythonTool extends Tool implements AsyncDisposable {
  readonly name = "python";
  readonly description =
    "Runs Python code and returns what it prints and the value of its last expression. " +
    "Names stay defined from call to call. There is no network.";
  readonly parameters: Info = {
    type: "object",
    properties: { code: { type: "string", description: 'e.g. "import math\\nmath.factorial(20)"' } },
    required: ["code"],
    additionalProperties: false,
  };
  override readonly info: Info;
  readonly #interpreter: PythonInterpreter;
  readonly #timeoutMs: number;

  constructor(backend: SandboxBackend, { timeoutMs = 20_000, ...options }: PythonToolOptions = {}) {
    super();
    this.#interpreter = new PythonInterpreter(backend, options);
    this.#timeoutMs = timeoutMs;
    this.info = { sandboxLevel: backend.level };
  }

  /** I6: a sandbox that fails is not the policy's fault. */
  async run({ code }: Info, { signal }: ToolRunOptions): Promise<string> {
    try {
      return await this.#interpreter.run(String(code), this.#timeoutMs, signal);
    } catch (error) {
      if (!(error instanceof SandboxError)) throw error;
      throw new EpisodeError("INFRASTRUCTURE", error.message, { code: error.code, cause: error });
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#interpreter[Symbol.asyncDispose]();
  }
}
