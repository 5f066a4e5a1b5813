// SPDX-License-Identifier: Apache-2.0
import { createReadStream } from "node:fs";
import { createInterface } from "node:readline";
import { WhetstoneError } from "@whetstone/core";
import { EpisodeError } from "@whetstone/sdk";
import type { CorpusDocument } from "@whetstone/tools";

/** Of one passage, characters: what an episode can read of it is far less. */
const MAX_TEXT = 1_000_000;

/**
 * Reads a JSONL file of `{"id"?, "title"?, "text"}`, a line at a time, so that a corpus of any size fits. Lines without an id are
 * named by their number.
 * @throws EpisodeError TASK naming file and line.
 */
export async function* readPassages(path: string, signal?: AbortSignal): AsyncGenerator<CorpusDocument> {
  const input = createReadStream(path, { encoding: "utf8", highWaterMark: 1 << 20, ...(signal && { signal }) });
  const lines = createInterface({ input, crlfDelay: Infinity });
  let number = 0;
  try {
    for await (const line of lines) {
      number += 1;
      if (line.trim() !== "") yield passageOf(line, path, number);
    }
  } catch (error) {
    if (error instanceof EpisodeError || signal?.aborted) throw error;
    throw new EpisodeError("TASK", `corpus ${path}: ${WhetstoneError.from(error).message}`, { cause: error });
  } finally {
    lines.close();
    input.destroy();
  }
}

function passageOf(line: string, path: string, number: number): CorpusDocument {
  try {
    const { id = String(number), title, text } = JSON.parse(line) as Partial<Record<string, unknown>>;
    if (typeof id !== "string" || typeof text !== "string") throw new Error('needs "id" and "text", both texts');
    if (text.length > MAX_TEXT) throw new Error(`text: at most ${MAX_TEXT} characters`);
    return { id, text, ...(typeof title === "string" ? { title } : {}) };
  } catch (error) {
    throw new EpisodeError("TASK", `corpus ${path}, line ${number}: ${WhetstoneError.from(error).message}`);
  }
}
