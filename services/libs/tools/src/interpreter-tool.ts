// SPDX-License-Identifier: Apache-2.0
import { type SandboxBackend, SandboxError } from "@whetstone/sandbox";
import { EpisodeError, type Info } from "@whetstone/sdk";
import { Interpreter, type InterpreterOptions, type Language } from "./interpreter.ts";
import { Tool, type ToolRunOptions } from "./tool.ts";

export interface InterpreterToolOptions extends InterpreterOptions {
  /** Of one call; at least two seconds less than the environment's deadline of a call, so that names can be kept. Default 20,000. */
  readonly timeoutMs?: number | undefined;
}

/** Runs code in an interpreter that belongs to one episode, and is closed with it. */
export abstract class InterpreterTool extends Tool implements AsyncDisposable {
  override readonly info: Info;
  readonly #interpreter: Interpreter;
  readonly #timeoutMs: number;

  constructor(
    backend: SandboxBackend,
    language: Language,
    { timeoutMs = 20_000, ...options }: InterpreterToolOptions = {},
  ) {
    super();
    this.#interpreter = new Interpreter(backend, language, options);
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

/** The parameters of such a tool. */
export function codeParameters(example: string): Info {
  return {
    type: "object",
    properties: { code: { type: "string", description: example } },
    required: ["code"],
    additionalProperties: false,
  };
}
