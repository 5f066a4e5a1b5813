// SPDX-License-Identifier: Apache-2.0
// A question and what tools of the filesystem server answered, as a small model reads them: names are letters. See README.md.
import { posix } from "node:path";

/** How names are called, the first that was read first; of more than these nobody is told. */
export const LETTERS = "abcdefghijklmnop";
/** Where the server's files lie. */
export const ROOT = "/workspace";

/** Words of questions have no capital but the first, which is short. */
const NAME = /\b[A-Z][a-z]{4,}\b/gu;
const ENTRY = /^\[(FILE|DIR)\] (\w+)$/gmu;

/** What an episode has read, and where what it read of lies. */
export class Notes {
  readonly #names: string[] = [];
  readonly #paths = new Map<string, string>();
  readonly #lines: string[];

  constructor(question: string) {
    this.#lines = [this.#lettered(question)];
  }

  get text(): string {
    return this.#lines.join("\n");
  }

  /** Undefined: there is no such letter. */
  nameOf(letter: string): string | undefined {
    return letter.length === 1 ? this.#names[LETTERS.indexOf(letter)] : undefined;
  }

  /** What was never listed or found is looked for at the top. */
  pathOf(name: string): string {
    return this.#paths.get(name) ?? posix.join(ROOT, name);
  }

  /** @param tool  its letter */
  add(tool: string, name: string, output: string, isError: boolean): void {
    const line = this.#lettered(`${tool} ${name}: ${isError ? "error" : this.#shortened(name, output)}.`);
    if (!this.#lines.includes(line)) this.#lines.push(line);
  }

  /** What is listed lies where it was listed; what is found lies at its path, in a folder that has a name. */
  #shortened(name: string, output: string): string {
    const entries = [...output.matchAll(ENTRY)];
    for (const [, , entry = ""] of entries) this.#paths.set(entry, posix.join(this.pathOf(name), entry));
    if (entries.length > 0)
      return entries.map(([, kind, entry]) => `${kind === "DIR" ? "folder" : "file"} ${entry}`).join(", ");
    if (!output.startsWith(`${ROOT}/`)) return output.trim().replaceAll("\n", ", ");
    const [path = ""] = output.split("\n");
    this.#paths.set(posix.basename(path), path);
    this.#paths.set(posix.basename(posix.dirname(path)), posix.dirname(path));
    return `in ${posix.basename(posix.dirname(path))}`;
  }

  #lettered(text: string): string {
    return text.replaceAll(NAME, (name) => {
      if (!this.#names.includes(name) && this.#names.length < LETTERS.length) this.#names.push(name);
      return LETTERS[this.#names.indexOf(name)] ?? "?";
    });
  }
}
