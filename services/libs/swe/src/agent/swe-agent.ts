// SPDX-License-Identifier: Apache-2.0
import {
  type Action,
  BaseAgent,
  type ChatMessage,
  createStep,
  createTrajectory,
  type Info,
  type ModelAnswer,
  type ToolSpec,
} from "@whetstone/sdk";
import type { ToolOutputs } from "@whetstone/tools";
import { bashBlockGrammar } from "./bash-block-grammar.ts";
import { functionGrammar } from "./function-grammar.ts";
import type { Grammar } from "./grammar.ts";
import { toolCallGrammar } from "./tool-call-grammar.ts";

/** "function": R2E-Gym's `<function=…>`. "bash-block": mini-swe-agent's one block a turn. "tool-call": plain calls of tools. */
export const GRAMMARS = ["function", "bash-block", "tool-call"] as const;
export type GrammarName = (typeof GRAMMARS)[number];

const GRAMMAR_OF: Readonly<Record<GrammarName, Grammar>> = {
  function: functionGrammar,
  "bash-block": bashBlockGrammar,
  "tool-call": toolCallGrammar,
};

export interface SweAgentOptions {
  readonly grammar: GrammarName;
  /** `{tools}` is replaced by what may be called, and how. "" with no tools in it: no system message. */
  readonly systemTemplate: string;
  /** `{task}` is replaced by what the environment says first. */
  readonly instanceTemplate: string;
  /** Each observation ends with the number of turns that are left. */
  readonly stepsLeft: boolean;
  /** From so many tokens on, observations ask to submit; 0: never. */
  readonly warnAtTokens: number;
}

export const SWE_SYSTEM_TEMPLATE = `You are a programmer who repairs a repository. You work with tools, step by step: each answer of yours is
one step, and what it came to is shown to you before the next.

{tools}`;

export const SWE_INSTANCE_TEMPLATE = `This is reported of the repository:

<issue>
{task}
</issue>

Change the repository's source so that it is settled, and no more than that. Its tests are not yours to change: others than those you
see will judge the result. A way to work:

1. Look around, and find the code that the report is about.
2. Write a short script that shows the fault, and run it.
3. Change the source.
4. Run the script again, and the tests that are near.
5. Think of other cases that the change must serve, then submit.`;

const SUBMIT_NOW = "Submit what you have now";

/** Repairs a repository with the tools that its environment offers, in the grammar that its model was trained on. */
export class SweAgent extends BaseAgent {
  readonly #options: SweAgentOptions;
  readonly #grammar: Grammar;
  #messages: ChatMessage[] = [];
  #trajectory = createTrajectory();
  #observation: unknown;
  #offered: readonly ToolSpec[] = [];
  /** That the environment allows. */
  #turns = Infinity;

  constructor(options: SweAgentOptions) {
    super();
    this.#options = options;
    this.#grammar = GRAMMAR_OF[options.grammar];
  }

  get chatCompletions(): readonly ChatMessage[] {
    return this.#messages;
  }

  get trajectory() {
    return this.#trajectory;
  }

  reset(): void {
    this.#messages = [];
    this.#trajectory = createTrajectory();
  }

  updateFromEnv(observation: unknown, _reward: number, done: boolean, info: Info): void {
    this.#observation = observation;
    if (done) return;
    const outputs = (observation as Partial<ToolOutputs> | null)?.toolOutputs;
    if (outputs === undefined) this.#introduce(observation, info);
    else this.#answer(outputs, this.#left(info));
  }

  updateFromModel(response: string, answer: Partial<ModelAnswer>): Action {
    const read = this.#grammar.read(response, answer, this.#trajectory.steps.length, this.#offered);
    this.#messages.push(echoOf(response, answer));
    const action = read.calls.length > 0 ? read.calls : read.text;
    const seen = { observation: this.#observation, modelResponse: response, chatCompletions: [...this.#messages] };
    this.#trajectory.steps.push(createStep({ ...seen, thought: read.thought, action }));
    return { action };
  }

  #introduce(observation: unknown, { tools, turns }: Info): void {
    const { systemTemplate, instanceTemplate } = this.#options;
    this.#offered = Array.isArray(tools) ? (tools as ToolSpec[]) : [];
    this.#turns = typeof turns === "number" ? turns : Infinity;
    const system = filled(systemTemplate, "{tools}", this.#grammar.describe(this.#offered));
    if (system !== "") this.#messages.push({ role: "system", content: system });
    this.#messages.push({ role: "user", content: filled(instanceTemplate, "{task}", taskOf(observation)) });
  }

  /** As messages of the grammar's role; what is left of the budget stands at the end of the last. */
  #answer(outputs: ToolOutputs["toolOutputs"], left: string): void {
    outputs.forEach(({ output, toolCallId }, i) => {
      const content = i === outputs.length - 1 ? output + left : output;
      const role = this.#grammar.outputRole;
      this.#messages.push(role === "tool" ? { role, content, toolCallId } : { role, content });
    });
  }

  #left({ maxSteps, curTokens }: Info): string {
    const { stepsLeft, warnAtTokens } = this.#options;
    const lines: string[] = [];
    const left = Math.min(this.#turns, Number(maxSteps ?? Infinity)) - this.#trajectory.steps.length;
    if (stepsLeft && Number.isFinite(left)) {
      lines.push(left > 1 ? `Steps left: ${left}` : `Steps left: ${left}. ${SUBMIT_NOW}.`);
    }
    if (warnAtTokens > 0 && typeof curTokens === "number" && curTokens >= warnAtTokens)
      lines.push(`There is hardly any room left for more. ${SUBMIT_NOW}.`);
    return lines.map((line) => `\n${line}`).join("");
  }
}

/** Without the template language's surprises: what is put in is not looked at again. */
function filled(template: string, mark: string, text: string): string {
  return template.split(mark).join(text).trim();
}

/** The answer as it was: the gateway continues its exact ids only if it comes back unchanged. */
function echoOf(content: string, { toolCalls, reasoning }: Partial<ModelAnswer>): ChatMessage {
  const calls = toolCalls === undefined || toolCalls.length === 0 ? {} : { toolCalls };
  return { role: "assistant", content, ...calls, ...(reasoning === undefined ? {} : { reasoning }) };
}

function taskOf(observation: unknown): string {
  const { question } = (observation ?? {}) as { question?: unknown };
  return typeof question === "string"
    ? question
    : typeof observation === "string"
      ? observation
      : JSON.stringify(observation);
}
