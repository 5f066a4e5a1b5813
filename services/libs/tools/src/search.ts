// SPDX-License-Identifier: Apache-2.0
import { defineTool, type Tool } from "./tool.ts";
import type { Searcher } from "./corpus.ts";

export interface SearchToolOptions {
  readonly name?: string | undefined;
  readonly description?: string | undefined;
  /** Documents an answer has at most and by default. Defaults 10 and 3. */
  readonly maxResults?: number | undefined;
  readonly results?: number | undefined;
  /** Characters shown of each document. Default 300. */
  readonly excerptCharacters?: number | undefined;
}

/** Searches by words. Output as rLLM's local search: one block a document, its id, score and beginning. */
export function searchTool(searcher: Searcher, options: SearchToolOptions = {}): Tool {
  const { name = "search", maxResults = 10, results = 3, excerptCharacters = 300 } = options;
  return defineTool<{ readonly query: string; readonly top_k?: number }>({
    name,
    description: options.description ?? "Finds documents by the words of a query, best first.",
    parameters: {
      type: "object",
      properties: {
        query: { type: "string", minLength: 1, maxLength: 500, description: "words to look for" },
        top_k: {
          type: "integer",
          minimum: 1,
          maximum: maxResults,
          description: `documents wanted, default ${results}`,
        },
      },
      required: ["query"],
      additionalProperties: false,
    },
    run: async ({ query, top_k: wanted = results }, { signal }) => {
      const found = await searcher.search(query, Math.min(wanted, maxResults), { signal });
      if (found.length === 0) return "No relevant documents found.";
      const blocks = found.map(({ document: { id, title, text }, score }, i) => {
        const heading = title === undefined ? "" : `${title}\n`;
        return `[Document ${i + 1}] (ID: ${id}, Score: ${score.toFixed(3)})\n${heading}${text.slice(0, excerptCharacters)}`;
      });
      return blocks.join("\n\n");
    },
  });
}
