// SPDX-License-Identifier: Apache-2.0
import { readFileSync } from "node:fs";
import type { ModelCodec } from "../codec/model-codec.ts";
import { ApiError } from "../completion/api-error.ts";
import type { TemplateMessage } from "../completion/message.ts";

/** A conversation and what transformers makes of it: see whetstone_models/chat.py. */
export interface Reference {
  readonly messages: readonly TemplateMessage[];
  readonly tools: readonly unknown[] | null;
  readonly text?: string;
  readonly ids?: readonly number[];
  readonly decoded?: string;
  /** The template's words, instead of these. */
  readonly refused?: string;
}

export interface Comparison {
  /** Text, ids and decoded text are the same. */
  readonly alike: number;
  /** The template refuses them in both. */
  readonly refused: number;
  /** Calls of tools that the template does not print: what an absent text looks like is each program's own affair. */
  readonly notPrinted: number;
  readonly different: number;
  /** The first few, each with the place. */
  readonly differences: readonly string[];
}

const TOLD = 3;
/** Characters or ids. */
const SHOWN = 20;

/** @throws Error when the file is not what the models tool wrote */
export function readReferences(path: string): Reference[] {
  const read: unknown = JSON.parse(readFileSync(path, "utf8"));
  if (!Array.isArray(read)) throw new Error(`${path}: must be an array of conversations`);
  return read as Reference[];
}

export function compare(codec: ModelCodec, references: readonly Reference[]): Comparison {
  const counts = { alike: 0, refused: 0, notPrinted: 0, different: 0 };
  const differences: string[] = [];
  for (const [index, reference] of references.entries()) {
    const outcome = compareOne(codec, reference);
    if (typeof outcome === "string") counts[outcome]++;
    else {
      counts.different++;
      if (differences.length < TOLD) differences.push(`conversation ${index}: ${outcome.reason}`);
    }
  }
  return { ...counts, differences };
}

function compareOne(
  codec: ModelCodec,
  reference: Reference,
): "alike" | "refused" | "notPrinted" | { readonly reason: string } {
  const { messages, tools, refused } = reference;
  if (refused === undefined && !printsCalls(reference)) return "notPrinted";
  const text = renderedBy(codec, messages, tools ?? undefined);
  if (typeof text !== "string") {
    return refused === undefined ? { reason: `refused by us alone: ${text.message}` } : "refused";
  }
  if (refused !== undefined) return { reason: `refused by transformers alone: ${refused}` };
  const reason = partingOf(codec, text, reference);
  return reason === undefined ? "alike" : { reason };
}

function partingOf(codec: ModelCodec, ours: string, { text = "", ids = [], decoded = "" }: Reference) {
  const ourIds = codec.encode(ours);
  return (
    differenceOf<string>("text", ours, text) ??
    differenceOf<readonly number[]>("ids", ourIds, ids) ??
    differenceOf<string>("decoded text", codec.decode(ourIds), decoded)
  );
}

function renderedBy(codec: ModelCodec, ...asked: Parameters<ModelCodec["render"]>): string | ApiError {
  try {
    return codec.render(...asked);
  } catch (error) {
    if (error instanceof ApiError) return error;
    throw error;
  }
}

function printsCalls({ messages, text = "" }: Reference): boolean {
  const calls = messages.flatMap(
    ({ tool_calls: some }) => (some ?? []) as { readonly function: { readonly name: string } }[],
  );
  return calls.every((call) => text.includes(call.function.name));
}

/** @returns where they part, or undefined */
function differenceOf<T extends string | readonly number[]>(what: string, ours: T, theirs: T): string | undefined {
  let at = 0;
  while (at < ours.length && at < theirs.length && ours[at] === theirs[at]) at++;
  if (at === ours.length && at === theirs.length) return undefined;
  const shown = (all: T): string => JSON.stringify(all.slice(at, at + SHOWN));
  return `${what} parts at ${at}: ours ${shown(ours)}, of transformers ${shown(theirs)}`;
}
