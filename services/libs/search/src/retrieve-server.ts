// SPDX-License-Identifier: Apache-2.0
import { boundedText, Deadline, WhetstoneError } from "@whetstone/core";
import { EpisodeError, type StepOptions } from "@whetstone/sdk";
import type { Found, Searcher } from "@whetstone/tools";
import { z } from "zod";

export interface RetrieveServerOptions {
  /** Of the method itself, e.g. "http://retriever:8000/retrieve". */
  readonly url: string;
  readonly headers?: Readonly<Record<string, string>> | undefined;
  /** Of one query. Default 10,000. */
  readonly timeoutMs?: number | undefined;
  /** Of one answer; a longer one is the server's failure. Default 4 MiB. */
  readonly maxBytes?: number | undefined;
}

const document = z.union([
  z.object({ id: z.coerce.string().optional(), contents: z.string() }),
  z.object({ id: z.coerce.string().optional(), title: z.string().optional(), text: z.string() }),
]);
const answer = z.object({ result: z.array(z.array(z.object({ document, score: z.number() }))).length(1) });

/**
 * A retrieval server in Search-R1's wire form: `POST {queries: [text], topk, return_scores: true}` →
 * `{result: [[{document: {contents}, score}]]}`, where the first line of contents is the title. Documents with `title` and `text`
 * of their own are read, too. One that is slow, dead or talks nonsense is ENVIRONMENT: it says nothing about the policy (I6).
 */
export class RetrieveServer implements Searcher {
  readonly #options: RetrieveServerOptions;

  constructor(options: RetrieveServerOptions) {
    this.#options = options;
  }

  /** @throws EpisodeError ENVIRONMENT */
  async search(query: string, limit: number, { signal }: StepOptions = {}): Promise<readonly Found[]> {
    const { timeoutMs = 10_000 } = this.#options;
    using deadline = Deadline.after(timeoutMs, signal);
    try {
      const { result } = answer.parse(JSON.parse(await this.#post(query, limit, deadline.signal)));
      return (result[0] ?? []).slice(0, limit).map(foundOf);
    } catch (error) {
      if (signal?.aborted) throw error;
      throw this.#failed(deadline.signal.aborted ? `no answer within ${timeoutMs} ms` : reasonOf(error), error);
    }
  }

  async #post(query: string, limit: number, signal: AbortSignal): Promise<string> {
    const { url, headers = {}, maxBytes = 4 * 2 ** 20 } = this.#options;
    const body = JSON.stringify({ queries: [query], topk: limit, return_scores: true });
    const sent = { "content-type": "application/json", ...headers };
    // No redirect is followed: the headers may hold a key.
    const response = await fetch(url, { method: "POST", headers: sent, body, signal, redirect: "error" });
    const text = await boundedText(response, maxBytes);
    if (!response.ok) throw new Error(`it answered ${response.status}: ${text.slice(0, 200)}`);
    return text;
  }

  #failed(reason: string, cause: unknown): EpisodeError {
    const message = `retrieval server ${this.#options.url}: ${reason}`;
    return new EpisodeError("ENVIRONMENT", message.slice(0, 600), { cause });
  }
}

function foundOf({ document, score }: z.output<typeof answer>["result"][number][number], i: number): Found {
  const id = document.id ?? String(i);
  if (!("contents" in document)) return { document: { ...document, id }, score };
  const [title = "", ...text] = document.contents.split("\n");
  return { document: { id, title: title.replace(/^"(.*)"$/u, "$1"), text: text.join("\n") }, score };
}

function reasonOf(error: unknown): string {
  if (error instanceof z.ZodError) {
    const [issue] = error.issues;
    return `its answer is not {result: [[{document, score}]]}: ${issue?.path.join(".")}: ${issue?.message}`;
  }
  if (error instanceof SyntaxError) return "its answer is not JSON";
  const { cause } = error as { cause?: unknown };
  return WhetstoneError.from(cause ?? error).message;
}
