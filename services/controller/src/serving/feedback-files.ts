// SPDX-License-Identifier: Apache-2.0
import { createReadStream } from "node:fs";
import { mkdir, open } from "node:fs/promises";
import { join } from "node:path";
import { createInterface } from "node:readline";
import type { Feedback } from "@whetstone/proto/inference/v1/inference";

/** Of a stream's message, characters. */
const BATCH_CHARS = 1024 * 1024;
/** Ids of what was stored last, so that what a gateway tells again is not stored again. */
const IDS_KEPT = 10_000;

/** What clients said of answers: feedback/<serving>.jsonl on the data volume, a task of a data set a line. It outlives the serving. */
export class FeedbackFiles {
  readonly #folder: string;
  readonly #ids = new Set<string>();

  constructor(dataPath: string) {
    this.#folder = join(dataPath, "feedback");
  }

  /** Resolves when all of it is on the disk. @throws the disk's error; then some of it may be stored, and is stored again */
  async add(feedback: readonly Feedback[]): Promise<void> {
    for (const [serving, said] of Map.groupBy(feedback, ({ serving }) => serving)) {
      const fresh = said.filter(({ id }) => !this.#ids.has(id));
      if (fresh.length === 0) continue;
      // A line that a crash has cut must not take the next one with it.
      await this.#append(serving, fresh.map(({ task }) => `\n${task}`).join(""));
      for (const { id } of fresh) this.#ids.add(id);
    }
    for (const id of this.#ids) {
      if (this.#ids.size <= IDS_KEPT) break;
      this.#ids.delete(id);
    }
  }

  /** In parts; nothing: nobody has said anything. */
  async *read(serving: string): AsyncGenerator<string[]> {
    await using file = await open(this.#fileOf(serving)).catch(noFile);
    if (!file) return;
    let [part, chars]: [string[], number] = [[], 0];
    for await (const line of createInterface({ input: createReadStream("", { fd: file.fd, autoClose: false }) })) {
      if (!isWhole(line)) continue; // Empty, or cut by a crash: then the gateway told it again.
      part.push(line);
      chars += line.length;
      if (chars < BATCH_CHARS) continue;
      yield part;
      [part, chars] = [[], 0];
    }
    if (part.length > 0) yield part;
  }

  async #append(serving: string, text: string): Promise<void> {
    await mkdir(this.#folder, { recursive: true });
    await using file = await open(this.#fileOf(serving), "a");
    await file.appendFile(text);
    await file.sync();
  }

  #fileOf(serving: string): string {
    return join(this.#folder, `${serving}.jsonl`);
  }
}

function noFile(error: NodeJS.ErrnoException): undefined {
  if (error.code !== "ENOENT") throw error;
}

function isWhole(line: string): boolean {
  try {
    JSON.parse(line);
    return true;
  } catch {
    return false;
  }
}
