// SPDX-License-Identifier: Apache-2.0
import type { StepOptions, StepResult } from "@whetstone/sdk";
import { searchTool, ToolEnvironment, type ToolOutputs } from "@whetstone/tools";
import { Evidence } from "./evidence.ts";
import { searchReward, truthsOf } from "./search-reward.ts";
import { type SearchEnvironmentOptions, withDefaults } from "./settings.ts";

/** The searches end by themselves before: then it is the environment's failure, not an output of the tool. */
const TOOL_MORE_MS = 5_000;
/** Of a passage's heading, characters. */
const HEADING = 1_100;

/**
 * A question that is answered with the help of one tool, `search(query, top_k?)`. Well-formed is an episode that searched, whose calls
 * could all be read and run, and whose answer is in `<answer>` tags.
 */
export class ToolSearchEnvironment extends ToolEnvironment {
  readonly #seen: { toolErrors: number };

  constructor(options: SearchEnvironmentOptions) {
    const { task, searcher, grader, format, results, passageCharacters, maxSteps, timeoutMs } = withDefaults(options);
    const evidence = new Evidence(searcher, timeoutMs);
    const seen = { toolErrors: 0 };
    const maxResults = Math.max(results, 10);
    super({
      task: { ...task },
      tools: [searchTool(evidence, { results, maxResults, excerptCharacters: passageCharacters })],
      rewardFunction: (_task, answer) => {
        const isTagged = /<answer>[\s\S]*<\/answer>\s*$/u.test(answer);
        const isWellFormed = evidence.searches > 0 && seen.toolErrors === 0 && isTagged;
        const isRetrieved = evidence.has(truthsOf(task));
        return searchReward(grader, format, { answer, isWellFormed, isRetrieved }, task);
      },
      maxSteps,
      timeoutMs: timeoutMs + TOOL_MORE_MS,
      maxOutputCharacters: (passageCharacters + HEADING) * maxResults,
    });
    this.#seen = seen;
  }

  override async step(action: unknown, options: StepOptions = {}): Promise<StepResult> {
    const result = await super.step(action, options);
    const { toolOutputs = [] } = result.observation as Partial<ToolOutputs>;
    this.#seen.toolErrors += toolOutputs.filter(({ isError }) => isError).length;
    return result;
  }
}
