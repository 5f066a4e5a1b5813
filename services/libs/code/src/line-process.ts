// SPDX-License-Identifier: Apache-2.0
import type { ExecResult, Execution, Sandbox } from "@whetstone/sandbox";
import { MAX_ANSWER_BYTES } from "./program-driver.ts";

/** A Python driver that talks in lines of JSON. Its output is read as it comes, so little of it is kept. */
export class LineProcess {
  readonly #execution: Execution;
  readonly #lines: AsyncGenerator<string, undefined, undefined>;

  constructor(
    sandbox: Sandbox,
    driver: string,
    options: { readonly deadlineMs: number; readonly signal?: AbortSignal },
  ) {
    this.#execution = sandbox.exec(["python3", "-I", "-c", driver], {
      ...options,
      maxOutputBytes: 4 * MAX_ANSWER_BYTES,
      maxTotalBytes: Number.MAX_SAFE_INTEGER,
    });
    // It may end before anybody asks how.
    this.#execution.result.catch(() => undefined);
    this.#lines = linesOf(this.#execution);
  }

  /** How it ended. @throws SandboxError */
  get result(): Promise<ExecResult> {
    return this.#execution.result;
  }

  async send(message: unknown): Promise<void> {
    // Who has ended reads nothing; `next` says so.
    await this.#execution.write(`${JSON.stringify(message)}\n`).catch(() => undefined);
  }

  /** The next line; who says nothing in time is killed. Undefined: it has ended, or what it said is no JSON. */
  async next(timeoutMs?: number): Promise<unknown> {
    const timer = timeoutMs && setTimeout(() => this.#execution.kill("DEADLINE"), timeoutMs);
    try {
      const { value } = await this.#lines.next();
      return value === undefined ? undefined : JSON.parse(value);
    } catch {
      return undefined;
    } finally {
      clearTimeout(timer);
    }
  }

  kill(): void {
    this.#execution.kill();
  }
}

/** A line that is longer than an answer may be ends it. */
async function* linesOf(execution: Execution): AsyncGenerator<string, undefined, undefined> {
  let parts: Buffer[] = [];
  let bytes = 0;
  for await (const { stream, data } of execution.chunks()) {
    if (stream !== "stdout") continue;
    let rest = Buffer.from(data);
    for (let at = rest.indexOf(10); at >= 0; at = rest.indexOf(10)) {
      yield Buffer.concat([...parts, rest.subarray(0, at)]).toString("utf8");
      [parts, bytes, rest] = [[], 0, rest.subarray(at + 1)];
    }
    parts.push(rest);
    bytes += rest.length;
    if (bytes <= 2 * MAX_ANSWER_BYTES) continue;
    execution.kill("OUTPUT");
    return undefined;
  }
  return undefined;
}
