// SPDX-License-Identifier: Apache-2.0
/** A call as a model wrote it. Without a name it is no call that a client could answer: its text stays content. */
export interface ReadCall {
  readonly name: string | undefined;
  readonly arguments: string;
  readonly malformed: boolean;
  /** Where the model names its calls itself. */
  readonly id?: string | undefined;
}

/** JSON schemas of arguments, by the tool's name. */
export type ToolSchemas = ReadonlyMap<string, unknown>;

/** A stretch of an answer that holds calls. */
export interface CallBlock {
  readonly open: string;
  /** Absent: it goes on to the next block, or to the answer's end. */
  readonly close?: string;
  /** It counts only where nothing but space stands before it, as its mark is one that plain text may hold too. */
  readonly first?: boolean;
  /** @param inner  what stands between the marks. */
  readonly read: (inner: string, tools: ToolSchemas) => readonly ReadCall[];
}

/** How a family of models writes thoughts and calls of tools. A new family is a file beside these and a line in index.ts. */
export interface AnswerFormat {
  readonly name: string;
  /** Whether a chat template makes its model write so. */
  readonly isOf: (template: string) => boolean;
  readonly blocks: readonly CallBlock[];
  /** Marks that say nothing by themselves, such as those around several calls. */
  readonly dropped?: readonly string[];
  readonly thoughts?: { readonly open: string; readonly close: string };
  /** What a call of that tool begins with, or of any tool: how `tool_choice` is kept. Absent: it cannot be. */
  readonly forced?: (name: string | undefined) => string;
  /** The length of a call's name, for templates that insist on it. */
  readonly idChars?: number;
}

export const THINK = { open: "<think>", close: "</think>" } as const;

/** All marks of a format. Tokenizers know some of them as special tokens, which would be left out of the text. */
export function marksOf({ blocks, dropped = [], thoughts }: AnswerFormat): string[] {
  const ofBlocks = blocks.flatMap(({ open, close }) => (close === undefined ? [open] : [open, close]));
  return [...ofBlocks, ...dropped, ...(thoughts ? [thoughts.open, thoughts.close] : [])];
}
