// SPDX-License-Identifier: Apache-2.0
import { LineProcess } from "@whetstone/code";
import { type SandboxBackend, SandboxError } from "@whetstone/sandbox";
import { MATH_VERIFY_DRIVER, QUESTION_MIB, QUESTION_SECONDS, WALL_FACTOR } from "./driver.ts";

/** What the driver says of a question. */
export type Said =
  | { readonly isEqual: boolean; readonly answer: string | null }
  | { readonly unread: number }
  | { readonly failure: "TIME" | "ERROR" | "LATE" | "KILLED"; readonly readTruths: boolean };

/** sympy is large: on a busy machine it takes a while to be loaded. */
const START_MS = 120_000;
/** Who has not answered by then hangs: the driver's own deadline is over. */
const ANSWER_MS = 1000 * QUESTION_SECONDS * WALL_FACTOR + 30_000;
const WEEK_MS = 7 * 86_400_000;
const DRIVER_MIB = 512;
const OTHER_PROCESSES = 8;

/** The driver, and the questions that it was asked. */
export class JudgeProcess implements AsyncDisposable {
  readonly version: string;
  /** Sandbox and folder: sympy loads parts of itself when they are first needed. */
  readonly #opened: AsyncDisposableStack;
  readonly #lines: LineProcess;
  readonly #asked = new Map<number, (said: Said | undefined) => void>();
  readonly #end = Promise.withResolvers<void>();
  #count = 0;
  #hasEnded = false;

  private constructor(opened: AsyncDisposableStack, lines: LineProcess, version: string) {
    this.#opened = opened;
    this.#lines = lines;
    this.version = version;
    void this.#listen();
  }

  /** @throws SandboxError that says what the packages' folder lacks */
  static async start(backend: SandboxBackend, folder: string, atOnce: number): Promise<JudgeProcess> {
    await using undo = new AsyncDisposableStack();
    const prepared = undo.use(await backend.prepare(folder));
    const limits = { memoryMiB: DRIVER_MIB + atOnce * QUESTION_MIB, cpus: atOnce, processes: atOnce + OTHER_PROCESSES };
    const sandbox = undo.use(await backend.open({ prepared, limits, ttlMs: WEEK_MS }));
    const lines = new LineProcess(sandbox, MATH_VERIFY_DRIVER, { deadlineMs: WEEK_MS });
    const first = (await lines.next(START_MS)) as { readonly version: string } | undefined;
    if (first !== undefined) return new JudgeProcess(undo.move(), lines, first.version);
    const { stderr, failure } = await lines.result;
    throw new SandboxError("START", `it could not be started: ${failure ?? stderr.trim().slice(-500)}`);
  }

  get ended(): Promise<void> {
    return this.#end.promise;
  }

  /** Undefined: it ended before it answered. */
  async ask(truths: readonly string[], answer: string): Promise<Said | undefined> {
    if (this.#hasEnded) return undefined;
    const id = (this.#count += 1);
    const said = new Promise<Said | undefined>((resolve) => this.#asked.set(id, resolve));
    const timer = setTimeout(() => {
      this.#lines.kill();
    }, ANSWER_MS);
    await this.#lines.send({ id, truths, answer });
    try {
      return await said;
    } finally {
      clearTimeout(timer);
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#opened[Symbol.asyncDispose]();
  }

  async #listen(): Promise<void> {
    for (;;) {
      const next = (await this.#lines.next()) as (Said & { readonly id: number }) | undefined;
      if (next === undefined) break;
      this.#asked.get(next.id)?.(next);
      this.#asked.delete(next.id);
    }
    this.#hasEnded = true;
    this.#end.resolve();
    for (const resolve of this.#asked.values()) resolve(undefined);
    this.#asked.clear();
    await this.#opened[Symbol.asyncDispose]();
  }
}
