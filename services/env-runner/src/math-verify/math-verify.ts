// SPDX-License-Identifier: Apache-2.0
import { existsSync } from "node:fs";
import { availableParallelism } from "node:os";
import { join } from "node:path";
import { Gate, raceSignal, WhetstoneError } from "@whetstone/core";
import type { MathJudge, MathVerdict } from "@whetstone/graders";
import type { SandboxBackend } from "@whetstone/sandbox";
import { EpisodeError } from "@whetstone/sdk";
import { JudgeProcess, type Said } from "./judge-process.ts";

// V1: what the texts do is their own: an answer that takes too long is not equal, a truth that does, whatever it is compared
// with, is a broken task. All else that keeps a verdict away is ours, never "not equal" (I6).
// V2: the process serves all episodes. When it has ended, its open questions are asked once more, of a new one.

/** Questions at once, and those that wait. */
const AT_ONCE = Math.min(4, availableParallelism());
const MAX_WAITING = 10_000;
const SIMPLE_ANSWER = "$0$";

export interface MathVerifyOptions {
  /** Folder with the installed packages. Undefined: this env-runner was told of none. */
  readonly folder: string | undefined;
  readonly backend: () => Promise<SandboxBackend>;
}

/** Math-Verify in a sandbox of its own, started by the first question. */
export class MathVerify implements MathJudge, AsyncDisposable {
  readonly #options: MathVerifyOptions;
  readonly #gate = new Gate(AT_ONCE, { maxQueued: MAX_WAITING });
  #process: Promise<JudgeProcess> | undefined;

  constructor(options: MathVerifyOptions) {
    this.#options = options;
  }

  /** Why it cannot judge here. Undefined: it is installed. */
  get missing(): string | undefined {
    const { folder } = this.#options;
    if (folder === undefined)
      return "this env-runner has no Math-Verify: name its folder in WHETSTONE_MATH_VERIFY_PATH, or use math";
    if (existsSync(join(folder, "math_verify", "__init__.py"))) return undefined;
    return `Math-Verify is not installed in ${folder}: run \`whet setup --math-verify\`, or use math`;
  }

  /** @throws EpisodeError TASK for a truth that cannot be read; GRADER where there is no verdict */
  async judge(truths: readonly string[], answer: string, signal?: AbortSignal): Promise<MathVerdict> {
    const { said, version } = await this.#queued(truths, answer, signal);
    const verdict = verdictOf(said, truths, `math-verify ${version}`);
    if (verdict.failure === undefined) return verdict;
    const simple = verdictOf((await this.#queued(truths, SIMPLE_ANSWER, signal)).said, truths, "");
    if (simple.failure === undefined) return verdict;
    throw brokenTruth(`Math-Verify ends with ${simple.failure} when it compares the truth with ${SIMPLE_ANSWER}`);
  }

  async #queued(truths: readonly string[], answer: string, signal: AbortSignal | undefined) {
    const slot = await this.#gate.acquire(signal);
    // A question goes on when nobody waits for its answer: until then it keeps its place.
    const asked = this.#ask(truths, answer).finally(() => {
      slot[Symbol.dispose]();
    });
    return await raceSignal(asked, signal);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    const running = await this.#process?.catch(() => undefined);
    await running?.[Symbol.asyncDispose]();
  }

  /** V2 */
  async #ask(truths: readonly string[], answer: string): Promise<{ said: Said; version: string }> {
    for (let attempt = 1; ; attempt += 1) {
      const running = await this.#started();
      const said = await running.ask(truths, answer);
      if (said !== undefined) return { said, version: running.version };
      if (attempt === 2) throw noVerdict("its process ended twice while it was asked");
    }
  }

  #started(): Promise<JudgeProcess> {
    if (this.#process !== undefined) return this.#process;
    const starting = this.#start();
    this.#process = starting;
    const forget = (): void => {
      if (this.#process === starting) this.#process = undefined;
    };
    starting.then(({ ended }) => ended.then(forget), forget);
    return starting;
  }

  async #start(): Promise<JudgeProcess> {
    const { missing } = this;
    if (missing !== undefined) throw noVerdict(missing);
    try {
      return await JudgeProcess.start(await this.#options.backend(), this.#options.folder as string, AT_ONCE);
    } catch (error) {
      throw noVerdict(WhetstoneError.from(error).message, error);
    }
  }
}

/** V1 */
function verdictOf(said: Said, truths: readonly string[], judge: string): MathVerdict {
  if ("isEqual" in said) return { isEqual: said.isEqual, answer: said.answer, judge };
  if ("unread" in said) throw brokenTruth(`Math-Verify cannot read ${JSON.stringify(truths[said.unread])}`);
  const { failure, readTruths } = said;
  if (failure === "LATE")
    throw noVerdict("the machine is too busy: a question took too long without using its CPU time");
  if (failure === "KILLED") throw noVerdict("a question's process was killed");
  if (readTruths) return { isEqual: false, answer: null, judge, failure };
  throw brokenTruth(`Math-Verify ends with ${failure} when it reads the truth`);
}

function brokenTruth(why: string): EpisodeError {
  return new EpisodeError("TASK", `answer: ${why}`);
}

function noVerdict(why: string, cause?: unknown): EpisodeError {
  return new EpisodeError("GRADER", `Math-Verify gave no verdict: ${why}`, { cause });
}
