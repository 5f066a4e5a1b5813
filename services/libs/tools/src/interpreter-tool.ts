// SPDX-License-Identifier: Apache-2.0
import { type SandboxBackend, SandboxError } from "@whetstone/sandbox";
import { EpisodeError, type Info } from "@whetstone/sdk";
import { Interpreter, type InterpreterOptions } from "./interpreter.ts";
import type { Language } from "./language.ts";
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

  /** @throws EpisodeError INFRASTRUCTURE where its language cannot be had in the sandboxes; that is found out once for all */
  async require(): Promise<void> {
    await this.#interpreter.require().catch(asOurs);
  }

  async run({ code }: Info, { signal }: ToolRunOptions): Promise<string> {
    return await this.#interpreter.run(String(code), this.#timeoutMs, signal).catch(asOurs);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#interpreter[Symbol.asyncDispose]();
  }
}

/** I6: a sandbox that fails is not the policy's fault. */
function asOurs(error: unknown): never {
  if (!(error instanceof SandboxError)) throw error;
  throw new EpisodeError("INFRASTRUCTURE", error.message, { code: error.code, cause: error });
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
