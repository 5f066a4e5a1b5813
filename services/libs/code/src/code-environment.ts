// SPDX-License-Identifier: Apache-2.0
import { type SandboxBackend, SandboxError } from "@whetstone/sandbox";
import {
  type Awaitable,
  EpisodeError,
  MultiTurnEnvironment,
  type ResetOptions,
  type ResetResult,
  type StepOptions,
  type Turn,
} from "@whetstone/sdk";
import type { CodeLimits, CodeTests, FailedCase, Verdict } from "./code-task.ts";
import { judgeProgram } from "./judge-program.ts";
import { programOf } from "./program-text.ts";

export interface CodeEnvironmentOptions extends CodeLimits {
  readonly question: string;
  readonly tests: CodeTests;
  /** Called at the reset, so that a job is refused where there is none, and when there is a program to judge. */
  readonly backend: () => Awaitable<SandboxBackend>;
  /** What programs may connect to, each "host:port". Default: nothing. */
  readonly reach?: readonly string[] | undefined;
  /** "all": 1 if every case passes. "share": the share of cases that pass. */
  readonly reward: "all" | "share";
  /** Programs that may be handed in; after one that fails, what its tests said is the next observation. */
  readonly maxTurns: number;
  /** Of so many cases, from the first, input and expected output are shown; of the others only how they failed. */
  readonly shownCases: number;
}

const NO_PROGRAM = "There is no program in the answer: put it between ```python and ```.";
const SHOWN_CHARACTERS = 1000;

/** A question, a program, the program's tests; a trajectory's reward is its last program's. */
export class CodeEnvironment extends MultiTurnEnvironment<{ readonly question: string }> {
  readonly #options: CodeEnvironmentOptions;
  #reward = 0;

  constructor(options: CodeEnvironmentOptions) {
    super({ question: options.question }, { maxTurns: options.maxTurns });
    this.#options = options;
  }

  override async reset(options: ResetOptions): Promise<ResetResult> {
    await this.#options.backend();
    return await super.reset(options);
  }

  async getRewardAndNextObs(_task: unknown, action: unknown, { signal }: StepOptions): Promise<Turn> {
    const program = programOf(String(action));
    if (program === undefined) return this.#turn(0, NO_PROGRAM, { passed: 0, noProgram: true });
    const { passed, total, failed, sandboxLevel } = await this.#judge(program, signal);
    const isRight = passed === total;
    const reward = this.#options.reward === "all" ? Number(isRight) : passed / total;
    const feedback = failed[0] === undefined ? "" : this.#feedback(failed[0], passed, total);
    const failure = failed[0]?.failure;
    return this.#turn(reward, feedback, { passed, total, sandboxLevel, ...(failure && { failure }) }, isRight);
  }

  /** The change is paid, so that a trajectory's reward is its last program's. */
  #turn(reward: number, feedback: string, info: Turn["info"], success = false): Turn {
    const change = this.currentTurn === 1 ? reward : reward - this.#reward;
    this.#reward = reward;
    return { reward: change, nextObservation: { feedback }, terminated: success, info: { ...info, success } };
  }

  async #judge(program: string, signal: AbortSignal | undefined): Promise<Verdict & { readonly sandboxLevel: string }> {
    const { tests, caseSeconds, memoryMiB, reward, maxTurns, reach } = this.#options;
    const stopAtFailure = reward === "all" && maxTurns === 1;
    try {
      const options = { caseSeconds, memoryMiB, stopAtFailure, reach, ...(signal && { signal }) };
      const backend = await this.#options.backend();
      return { ...(await judgeProgram(backend, program, tests, options)), sandboxLevel: backend.level };
    } catch (error) {
      if (!(error instanceof SandboxError)) throw error;
      throw new EpisodeError("INFRASTRUCTURE", error.message, { code: error.code, cause: error });
    }
  }

  #feedback(first: FailedCase, passed: number, total: number): string {
    const { tests, shownCases, caseSeconds } = this.#options;
    const { index, failure, message } = first;
    const WHY = {
      WRONG: "wrong answer",
      ERROR: "it ended with an error",
      TIME: `it took longer than ${caseSeconds} s`,
      MEMORY: "it took too much memory",
      OUTPUT: "it printed too much",
    };
    const said = `${passed} of ${total} tests passed. Test ${index + 1}: ${WHY[failure]}.`;
    if (index >= shownCases) return said;
    const parts = [...shownCase(tests, index), [failure === "WRONG" ? "Your program gave" : "It said", message]];
    return [said, ...parts.filter(([, text]) => text !== "").map(([name, text]) => `${name}:\n${cut(text)}`)].join(
      "\n",
    );
  }
}

function shownCase(tests: CodeTests, index: number): [string, string][] {
  if (tests.kind === "check") return [];
  if (tests.kind === "stdin") {
    const { input = "", output = "" } = tests.cases[index] ?? {};
    return [
      ["Input", input],
      ["Expected", output],
    ];
  }
  const { arguments: given, result } = tests.cases[index] ?? {};
  return [
    ["Arguments", JSON.stringify(given)],
    ["Expected", JSON.stringify(result)],
  ];
}

function cut(text = ""): string {
  return text.length <= SHOWN_CHARACTERS ? text : `${text.slice(0, SHOWN_CHARACTERS)} …`;
}
