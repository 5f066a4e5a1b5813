// SPDX-License-Identifier: Apache-2.0
// What a model's text says: words, thoughts and calls of tools, whatever the model writes them like.

/** A call of a tool, as the client gets it. */
export interface ToolCall {
  readonly id: string;
  readonly name: string;
  /** JSON text of an object; of a malformed call what the model wrote, which no client can parse. */
  readonly arguments: string;
  /** The client gets it all the same: its agent answers with an error that the model sees in its next turn. */
  readonly malformed: boolean;
}

/** An answer as its client reads it. */
export interface Answer {
  readonly content: string;
  readonly reasoning: string;
  readonly calls: readonly ToolCall[];
}

/** A bit of an answer that is still being made. A call comes whole: half a call may turn out to be malformed. */
export type AnswerPart =
  | { readonly kind: "content" | "reasoning"; readonly text: string }
  | { readonly kind: "call"; readonly call: ToolCall };

/** Takes an answer's text bit by bit; the parts together are the answer. */
export interface AnswerReader {
  push(text: string): AnswerPart[];
  /** What is left. @param cut  the answer ended for want of tokens, so that a call in it is none. */
  end(cut: boolean): AnswerPart[];
}

/** What a reader has to know of the request. */
export interface ReaderOptions {
  /** JSON schemas of the arguments, by the tool's name; undefined: calls are not looked for. */
  readonly tools: ReadonlyMap<string, unknown> | undefined;
  readonly parallelCalls: boolean;
  /** Nothing is looked for: the text is the answer. Absent: false. */
  readonly isRaw?: boolean;
  /** What the model goes on from: it may begin inside its thoughts. */
  readonly promptText: string;
  /** Names of calls are made from it. */
  readonly requestId: string;
}

/** The parts put together. */
export function answerOf(parts: readonly AnswerPart[]): Answer {
  let [content, reasoning] = ["", ""];
  const calls: ToolCall[] = [];
  for (const part of parts) {
    if (part.kind === "call") calls.push(part.call);
    else if (part.kind === "content") content += part.text;
    else reasoning += part.text;
  }
  return { content, reasoning, calls };
}

/** An answer that is whole already, as parts. */
export function partsOf({ content, reasoning, calls }: Answer): AnswerPart[] {
  const texts: AnswerPart[] = [
    { kind: "reasoning", text: reasoning },
    { kind: "content", text: content },
  ];
  return [
    ...texts.filter((part) => part.kind === "call" || part.text !== ""),
    ...calls.map((call) => ({ kind: "call" as const, call })),
  ];
}

/** The arguments of a call that is not malformed. */
export function parsedArguments({ arguments: args }: ToolCall): Record<string, unknown> {
  return JSON.parse(args) as Record<string, unknown>;
}
