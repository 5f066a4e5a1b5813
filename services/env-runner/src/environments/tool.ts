// SPDX-License-Identifier: Apache-2.0
import { ConfigError, parseOrThrow } from "@whetstone/core";
import { defineEnvironment } from "@whetstone/sdk";
import { calculator, Corpus, CorpusCache, searchTool, type Tool, ToolEnvironment } from "@whetstone/tools";
import { z } from "zod";
import { GradedArgs, rewardFunctionOf, taskOf } from "./graded.ts";

const Document = z.strictObject({
  id: z.string().min(1).max(200),
  title: z.string().max(1000).optional(),
  text: z.string().max(100_000),
});

const ToolArgs = GradedArgs.extend({
  tools: z
    .array(z.enum(["calculator", "search"]))
    .max(2)
    .default(["calculator"])
    .describe("what may be called"),
  corpus: z
    .union([z.string().min(1), z.array(Document).max(200)])
    .optional()
    .describe(
      "what search looks in: path of a JSONL file of {id, title?, text} on the env-runner's machine, or documents",
    ),
  searchResults: z.number().int().min(1).max(10).default(3).describe("documents an answer of search has by default"),
  maxSteps: z.number().int().min(1).max(1000).default(10).describe("turns"),
  toolTimeoutMs: z.number().int().min(1).max(600_000).default(30_000).describe("of one call"),
  maxOutputCharacters: z.number().int().min(10).max(1_000_000).default(8_000).describe("of one call's output"),
});

type ToolArguments = z.output<typeof ToolArgs>;

/** Corpora by path: shared by all episodes, none of which can change them. */
const corpora = new CorpusCache();

export const tool = defineEnvironment<ToolArguments>({
  kind: "tool",
  description: "A question that may be answered with the help of tools: a calculator, a search over a corpus.",
  seedable: true,
  parseArgs: (args) => {
    const parsed = parseOrThrow(ToolArgs, args, "");
    if (!parsed.tools.includes("search") || parsed.corpus !== undefined) return parsed;
    throw new ConfigError([{ path: "corpus", reason: "search needs a corpus: a path or a list of documents" }]);
  },
  argsSchema: z.toJSONSchema(ToolArgs, { io: "input" }),
  create: (args) =>
    new ToolEnvironment({
      task: taskOf(args),
      tools: () => openTools(args),
      rewardFunction: rewardFunctionOf(args),
      maxSteps: args.maxSteps,
      timeoutMs: args.toolTimeoutMs,
      maxOutputCharacters: args.maxOutputCharacters,
    }),
});

async function openTools({ tools, corpus = [], searchResults }: ToolArguments): Promise<Tool[]> {
  const wanted = new Set(tools);
  const found: Tool[] = wanted.has("calculator") ? [calculator] : [];
  if (!wanted.has("search")) return found;
  const documents = typeof corpus === "string" ? await corpora.get(corpus) : new Corpus(corpus);
  return [...found, searchTool(documents, { results: searchResults })];
}
