// SPDX-License-Identifier: Apache-2.0
import { WhetstoneError } from "@whetstone/core";
import { BaseEnv, type ResetResult, type StepOptions, type StepResult } from "@whetstone/sdk";
import { Evidence } from "./evidence.ts";
import { searchReward, truthsOf } from "./search-reward.ts";
import { type SearchEnvironmentOptions, type SearchSettings, withDefaults } from "./settings.ts";
import { information, INVALID_ACTION, isWellFormed, type TagAction, tagAction } from "./tag-grammar.ts";

/**
 * A question that is answered with the help of searches, in Search-R1's grammar. Actions are the model's turns as they are; the
 * observation of a search is its `<information>` block. A turn without an action gets Search-R1's words for that.
 */
export class TagSearchEnvironment extends BaseEnv {
  readonly #settings: SearchSettings;
  readonly #evidence: Evidence;
  #episode = "";
  #turns = 0;
  #isOpen = false;

  constructor(options: SearchEnvironmentOptions) {
    super();
    this.#settings = withDefaults(options);
    this.#evidence = new Evidence(options.searcher, this.#settings.timeoutMs);
  }

  reset(): ResetResult {
    this.#isOpen = true;
    const { task, maxSteps: turns } = this.#settings;
    return { observation: task.question, info: { grammar: "tags", turns } };
  }

  async step(action: unknown, { signal }: StepOptions = {}): Promise<StepResult> {
    if (!this.#isOpen)
      throw new WhetstoneError("FAILED_PRECONDITION", "step needs a reset first, and none follows the end");
    this.#turns += 1;
    const read = tagAction(typeof action === "string" ? action : "");
    this.#episode += read.text;
    if (read.kind === "answer") return this.#finish(read.content, true);
    if (this.#turns >= this.#settings.maxSteps) return this.#finish("", false);
    const observation = await this.#observe(read, signal);
    this.#episode += observation;
    return { observation, reward: 0, terminated: false, truncated: false, info: this.#counts() };
  }

  async #observe(action: TagAction, signal: AbortSignal | undefined): Promise<string> {
    if (action.kind !== "search") return INVALID_ACTION;
    const { results, passageCharacters } = this.#settings;
    return information(await this.#evidence.search(action.content, results, { signal }), passageCharacters);
  }

  async #finish(answer: string, terminated: boolean): Promise<StepResult> {
    this.#isOpen = false;
    const { task, grader, format } = this.#settings;
    const isRetrieved = this.#evidence.has(truthsOf(task));
    const judged = { answer, isWellFormed: isWellFormed(this.#episode), isRetrieved };
    const { reward, isCorrect, metadata } = await searchReward(grader, format, judged, task);
    const info = { ...metadata, ...this.#counts(), success: isCorrect };
    return { observation: {}, reward, terminated, truncated: !terminated, info };
  }

  #counts() {
    return { searches: this.#evidence.searches, turns: this.#turns };
  }
}
