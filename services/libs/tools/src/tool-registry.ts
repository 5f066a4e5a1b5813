// SPDX-License-Identifier: Apache-2.0
import { Deadline, raceSignal, WhetstoneError } from "@whetstone/core";
import { EpisodeError, type ImagePart, type Info, type ToolCall, type ToolSpec } from "@whetstone/sdk";
import { type ArgumentCheck, argumentCheck, FinalOutput, OutputWithImages, type Tool, ToolError } from "./tool.ts";

/** What a call came to, as the model sees it. */
export interface ToolOutput {
  readonly toolCallId: string;
  readonly name: string;
  /** The result, or "Error: …" with what to do. */
  readonly output: string;
  readonly isError: boolean;
  /** Pictures of the result. Absent: none. */
  readonly images?: readonly ImagePart[];
  /** The call ended the episode. */
  readonly isFinal?: true;
}

/** A call as the agent read it; `problem` says why it could not be read. */
export interface ParsedToolCall extends ToolCall {
  readonly problem?: string;
}

export interface ToolLimits {
  /** Of one call. Default 30,000. */
  readonly timeoutMs?: number | undefined;
  /** Of one output; the rest is left out, and the model is told. Default 8,000. */
  readonly maxOutputCharacters?: number | undefined;
  /** Of one turn, run side by side; further ones are answered with an error. Default 16. */
  readonly maxCalls?: number | undefined;
}

interface Entry {
  readonly tool: Tool;
  readonly check: ArgumentCheck;
}

/** Longer arguments are refused unread. */
const MAX_ARGUMENTS_CHARACTERS = 100_000;
const NAME = /^[A-Za-z0-9_-]{1,64}$/u;

/** A set of tools, and the one way to call them. A value, not a singleton: each environment is given its own. */
export class ToolRegistry {
  readonly #entries = new Map<string, Entry>();

  /** @throws WhetstoneError for a bad name or two tools of the same name. */
  constructor(tools: Iterable<Tool>) {
    for (const tool of tools) {
      if (!NAME.test(tool.name)) {
        throw new WhetstoneError("INVALID_ARGUMENT", `tool name "${tool.name}": only letters, digits, "_" and "-"`);
      }
      if (this.#entries.has(tool.name)) throw new WhetstoneError("ALREADY_EXISTS", `two tools are named ${tool.name}`);
      this.#entries.set(tool.name, { tool, check: argumentCheck(tool) });
    }
  }

  get names(): readonly string[] {
    return [...this.#entries.keys()];
  }

  get specs(): readonly ToolSpec[] {
    return [...this.#entries.values()].map(({ tool }) => tool.spec);
  }

  get(name: string): Tool | undefined {
    return this.#entries.get(name)?.tool;
  }

  /** Why a call would be refused before it runs; undefined: it would run. */
  problemOf(call: ParsedToolCall): string | undefined {
    const read = this.#read(call);
    return typeof read === "string" ? read : undefined;
  }

  /** All calls of one turn, side by side; outputs in their order. @throws EpisodeError when a tool itself failed. */
  async runAll(
    calls: readonly ParsedToolCall[],
    signal: AbortSignal | undefined,
    limits: ToolLimits = {},
  ): Promise<ToolOutput[]> {
    const { maxCalls = 16 } = limits;
    return Promise.all(
      calls.map(async (call, i) => {
        const tooMany = `at most ${maxCalls} calls a turn; this one was not made.`;
        return i < maxCalls ? this.run(call, signal, limits) : failed(call, tooMany, limits);
      }),
    );
  }

  /** One call. The model's mistakes are its output; only failures of the tool itself are thrown. */
  async run(call: ParsedToolCall, signal?: AbortSignal, limits: ToolLimits = {}): Promise<ToolOutput> {
    const read = this.#read(call);
    if (typeof read === "string") return failed(call, read, limits);
    const { timeoutMs = 30_000 } = limits;
    using deadline = Deadline.after(timeoutMs, signal);
    try {
      const work = Promise.resolve(read.tool.run(read.args, { signal: deadline.signal }));
      const result = await raceSignal(work, deadline.signal);
      if (result instanceof FinalOutput)
        return { ...answered(call, result.text, limits), isError: false, isFinal: true };
      if (result instanceof OutputWithImages)
        return { ...answered(call, result.text, limits), isError: false, images: result.images };
      return { ...answered(call, textOf(result), limits), isError: false };
    } catch (error) {
      if (signal?.aborted) throw error;
      if (error instanceof ToolError) return failed(call, error.message, limits);
      if (deadline.signal.aborted) return failed(call, `${call.name} took longer than ${timeoutMs} ms.`, limits);
      throw broken(call, error);
    }
  }

  #read(call: ParsedToolCall): string | { readonly tool: Tool; readonly args: Info } {
    if (call.problem !== undefined) return call.problem;
    const entry = this.#entries.get(call.name);
    if (entry === undefined)
      return `there is no tool "${call.name.slice(0, 64)}"; there are: ${this.names.join(", ")}.`;
    const args = parseArguments(call.argumentsJson);
    if (typeof args === "string") return args;
    return entry.check(args) ?? { tool: entry.tool, args };
  }
}

function parseArguments(json: string): Info | string {
  if (json.length > MAX_ARGUMENTS_CHARACTERS) return `arguments: at most ${MAX_ARGUMENTS_CHARACTERS} characters.`;
  try {
    const value: unknown = JSON.parse(json === "" ? "{}" : json);
    if (typeof value === "object" && value !== null && !Array.isArray(value)) return value as Info;
    return "arguments: must be a JSON object.";
  } catch (error) {
    return `arguments: not valid JSON (${error instanceof Error ? error.message : String(error)}).`;
  }
}

function textOf(result: unknown): string {
  return typeof result === "string" ? result : (JSON.stringify(result) ?? "");
}

function answered({ id, name }: ToolCall, text: string, { maxOutputCharacters = 8_000 }: ToolLimits) {
  const over = text.length - maxOutputCharacters;
  const output = over > 0 ? `${text.slice(0, maxOutputCharacters)}\n… (${over} more characters left out)` : text;
  return { toolCallId: id, name, output };
}

function failed(call: ToolCall, message: string, limits: ToolLimits): ToolOutput {
  return { ...answered(call, `Error: ${message}`, limits), isError: true };
}

/** I6: a tool that breaks is not the policy's fault. */
function broken({ name }: ToolCall, error: unknown): Error {
  if (error instanceof EpisodeError) return error;
  const message = `tool ${name} failed: ${WhetstoneError.from(error).message} (what the model did wrong: throw ToolError)`;
  return new EpisodeError("ENVIRONMENT", message, { cause: error });
}
