// SPDX-License-Identifier: Apache-2.0
import type { Readable } from "node:stream";
import type { Logger } from "@whetstone/telemetry";

const MAX_LINE_CHARACTERS = 2_000;
/** Lines at once, and lines a second after that: user code must not fill the service's log. */
const BURST = 200;
const PER_SECOND = 20;

/** What user code prints, line by line, in the service's log. */
export class ChildOutput {
  /** The last line on stderr that looks like an error's. */
  lastError = "";
  /** The last on stderr, whatever it looks like. */
  lastLine = "";
  readonly #logger: Logger;
  #tokens = BURST;
  #filledAt = performance.now();
  #dropped = 0;

  constructor(logger: Logger) {
    this.#logger = logger;
  }

  follow(stream: Readable, name: "stdout" | "stderr"): void {
    let rest = "";
    stream.setEncoding("utf8");
    stream.on("data", (chunk: string) => {
      const lines = (rest + chunk).split("\n");
      rest = (lines.pop() as string).slice(0, MAX_LINE_CHARACTERS);
      for (const line of lines) this.#line(name, line);
    });
    stream.on("end", () => {
      if (rest !== "") this.#line(name, rest);
    });
  }

  #line(stream: "stdout" | "stderr", text: string): void {
    const line = text.slice(0, MAX_LINE_CHARACTERS);
    if (stream === "stderr" && line.trim() !== "") this.lastLine = line;
    if (stream === "stderr" && /error/i.test(line) && !line.startsWith(" ")) this.lastError = line;
    if (line.trim() === "" || !this.#take()) return;
    this.#logger.info("module_output", { stream, line, ...(this.#dropped > 0 ? { linesDropped: this.#dropped } : {}) });
    this.#dropped = 0;
  }

  #take(): boolean {
    const now = performance.now();
    this.#tokens = Math.min(BURST, this.#tokens + ((now - this.#filledAt) / 1000) * PER_SECOND);
    this.#filledAt = now;
    if (this.#tokens < 1) {
      this.#dropped += 1;
      return false;
    }
    this.#tokens -= 1;
    return true;
  }
}
