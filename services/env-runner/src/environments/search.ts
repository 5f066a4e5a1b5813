// SPDX-License-Identifier: Apache-2.0
import { statSync } from "node:fs";
import { ConfigError, parseOrThrow } from "@whetstone/core";
import { type IndexStore, RetrieveServer, TagSearchEnvironment, ToolSearchEnvironment } from "@whetstone/search";
import { defineEnvironment, type RegisteredEnvironment } from "@whetstone/sdk";
import type { Searcher } from "@whetstone/tools";
import { z } from "zod";
import { GradedArgs } from "./graded.ts";

const worth = z.number().min(0).max(1).default(0);

const SearchArgs = z.strictObject({
  question: GradedArgs.shape.question,
  answer: GradedArgs.shape.answer,
  corpus: z
    .string()
    .min(1)
    .optional()
    .describe("what is searched: an artifact (artifact://tasks/…) or path of a JSONL file of {id, title?, text}"),
  url: z
    .url({ protocol: /^https?$/u })
    .optional()
    .describe("of a server's retrieve method in Search-R1's wire form; instead of corpus"),
  headers: z
    .record(z.string().regex(/^[A-Za-z0-9-]{1,100}$/u, "must be the name of a header"), z.string().max(10_000))
    .default({})
    .describe("of every request to url"),
  grammar: z
    .enum(["tools", "tags"])
    .default("tools")
    .describe("tools: calls of a tool search; tags: Search-R1's <think>, <search>, <information> and <answer>"),
  grader: z
    .enum(["exact", "f1"])
    .default("exact")
    .describe("exact: reward 1 for one of the truths in SQuAD's normal form; f1: the words' F1"),
  format: z
    .strictObject({
      structure: worth.describe("reward of a well-formed episode without the right answer; Search-R1: 0.2"),
      final: worth.describe("reward of a wrong answer in an episode that is not well-formed; Search-R1: 0.1"),
      retrieval: worth.describe("beside structure, where the truth was found; Search-R1: 0 or 0.1"),
    })
    .default({ structure: 0, final: 0, retrieval: 0 })
    .describe("what the episode's form is worth"),
  results: z.number().int().min(1).max(50).default(3).describe("passages that a search gives by default"),
  passageCharacters: z.number().int().min(10).max(20_000).default(600).describe("shown of a passage"),
  maxSteps: z.number().int().min(1).max(1000).default(6).describe("turns"),
  searchTimeoutMs: z.number().int().min(1).max(600_000).default(30_000).describe("of one search"),
  k1: z.number().min(0).max(10).default(1.2).describe("of BM25: how soon a repeated word stops to count"),
  b: z.number().min(0).max(1).default(0.75).describe("of BM25: how much a long passage is held against it"),
  metadata: GradedArgs.shape.metadata,
});

type SearchArguments = z.output<typeof SearchArgs>;

/** @param indexes  shared by all episodes */
export function searchEnvironment(indexes: IndexStore): RegisteredEnvironment {
  return defineEnvironment<SearchArguments>({
    kind: "search",
    description: "A question that is answered with the help of searches over a corpus, over several hops.",
    seedable: true,
    parseArgs: (raw) => {
      const args = parseOrThrow(SearchArgs, raw, "");
      const violations = [...violationsOf(args)];
      if (violations.length > 0) throw new ConfigError(violations);
      return args;
    },
    argsSchema: z.toJSONSchema(SearchArgs, { io: "input" }),
    create: (args) => {
      const { question, answer, grammar, searchTimeoutMs: timeoutMs, ...settings } = args;
      const options = { ...settings, timeoutMs, task: { question, answer }, searcher: searcherOf(args, indexes) };
      return grammar === "tags" ? new TagSearchEnvironment(options) : new ToolSearchEnvironment(options);
    },
  });
}

function* violationsOf({ corpus, url, headers, format: { structure, final, retrieval } }: SearchArguments) {
  if ((corpus === undefined) === (url === undefined))
    yield { path: "corpus", reason: "give corpus, a file that is indexed here, or url, of a retrieval server" };
  const found = corpus === undefined ? undefined : statSync(corpus, { throwIfNoEntry: false });
  if (corpus !== undefined && !found?.isFile())
    yield { path: "corpus", reason: `${corpus} ${found ? "is not a file" : "does not exist"}` };
  if (url === undefined && Object.keys(headers).length > 0)
    yield { path: "headers", reason: "belong to url, not to corpus" };
  if (structure + retrieval > 1 || final > 1 - structure)
    yield { path: "format", reason: "a wrong answer must not be worth more than a right one" };
}

function searcherOf(
  { corpus, url, headers, searchTimeoutMs: timeoutMs, k1, b }: SearchArguments,
  indexes: IndexStore,
): Searcher {
  if (url !== undefined) return new RetrieveServer({ url, headers, timeoutMs });
  return {
    search: async (query, limit, { signal } = {}) => {
      const index = await indexes.get(corpus as string);
      return await index.search(query, limit, { k1, b, signal });
    },
  };
}
