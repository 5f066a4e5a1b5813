// SPDX-License-Identifier: Apache-2.0
import { WhetstoneError } from "@whetstone/core";
import {
  type ActionSubset,
  BaseEnv,
  type ResetOptions,
  type ResetResult,
  type StepOptions,
  type StepResult,
} from "@whetstone/sdk";
import { DEFAULT_SUBSETS } from "./actions/action.ts";
import { ActionSpace } from "./actions/action-space.ts";
import type { BrowserPool } from "./pool/browser-pool.ts";
import { type ActionForm, toolOutputsOf } from "./episode/forms.ts";
import { textOf } from "./episode/observation.ts";
import { type Look, WebEpisode, type WebTimes } from "./episode/web-episode.ts";
import type { WebTask } from "./task/web-task.ts";

export interface BrowserEnvironmentOptions {
  readonly pool: () => BrowserPool | Promise<BrowserPool>;
  readonly task: WebTask;
  /** Of the page. Default: the episode's. */
  readonly seed?: number | undefined;
  /** Actions. Default 10. */
  readonly maxSteps?: number | undefined;
  /**
   * text (default): an action is a text in BrowserGym's grammar, for the agent `web`; tools: it is a list of tool calls, as those of
   * a `ToolEnvironment`, for the agent `tool`.
   */
  readonly form?: ActionForm | undefined;
  readonly subsets?: readonly ActionSubset[] | undefined;
  /** Several actions may be given at once. Default: false. */
  readonly severalActions?: boolean | undefined;
  /** What the agent sees of a page at most; the rest is left out, and it is told. Default 30,000. */
  readonly maxTreeCharacters?: number | undefined;
  /** Elements without a meaning of their own (div, span) are shown, too: some of them can be clicked. Default: false. */
  readonly withGeneric?: boolean | undefined;
  /** A picture of the window beside each observation, as PNG; with marks the ids of what can be used are drawn over it. Default: none. */
  readonly picture?: { readonly marks: boolean } | undefined;
  readonly times?: Partial<WebTimes> | undefined;
}

/**
 * Pages of a browser, as an environment. What an action got wrong stands in the next observation; a browser or page that fails is the
 * environment's failure. The episode ends when its task is done, when the agent says that it cannot be done, or after `maxSteps`.
 */
export class BrowserEnvironment extends BaseEnv {
  readonly #options: BrowserEnvironmentOptions;
  readonly #space: ActionSpace;
  #episode: WebEpisode | undefined;
  #steps = 0;
  #errors = 0;
  #isOver = true;

  constructor(options: BrowserEnvironmentOptions) {
    super();
    this.#options = options;
    this.#space = new ActionSpace(options.subsets ?? DEFAULT_SUBSETS, { several: options.severalActions ?? false });
  }

  async reset({ seed, signal }: ResetOptions): Promise<ResetResult> {
    const { pool, task, times, seed: own = seed } = this.#options;
    this.#episode = await WebEpisode.open(await pool(), { task, space: this.#space, times, seed: own, signal });
    this.#steps = this.#errors = 0;
    this.#isOver = false;
    const { observation, images } = await this.#observe(signal);
    const info = { turns: this.#maxSteps, url: observation.url };
    if (this.#form === "text") return { observation, images, info: { ...info, actionSpace: this.#space.describe() } };
    return { observation: { question: textOf(observation) }, images, info: { ...info, tools: this.#space.tools } };
  }

  async step(action: unknown, { signal }: StepOptions = {}): Promise<StepResult> {
    const episode = this.#episode;
    if (episode === undefined || this.#isOver)
      throw new WhetstoneError("FAILED_PRECONDITION", "step needs a reset first, and none follows the end");
    this.#steps += 1;
    const outcomes = await episode.act(action, this.#form, signal);
    this.#errors += outcomes.filter(({ error }) => error !== "").length;
    const { reward, done, info } = await episode.judge(signal);
    const truncated = !done && this.#steps >= this.#maxSteps;
    this.#isOver = done || truncated;
    const own = { actionErrors: this.#errors, requestsRefused: episode.refused.length, url: episode.url };
    const verdict = { ...info, ...own, ...(this.#isOver ? { success: reward > 0 } : {}) };
    if (this.#isOver) return { observation: {}, reward, terminated: done, truncated, info: verdict };
    const { observation: seen, images } = await this.#observe(signal);
    const observation = this.#form === "text" ? seen : toolOutputsOf(outcomes, textOf(seen));
    return { observation, images, reward, terminated: false, truncated: false, info: verdict };
  }

  override async close(): Promise<void> {
    this.#isOver = true;
    await this.#episode?.[Symbol.asyncDispose]();
  }

  async #observe(signal: AbortSignal | undefined): Promise<Look> {
    const { maxTreeCharacters: maxCharacters = 30_000, withGeneric = false, picture } = this.#options;
    if (this.#episode === undefined) throw new WhetstoneError("FAILED_PRECONDITION", "there is no episode");
    return await this.#episode.observe({ maxCharacters, withGeneric, picture }, signal);
  }

  get #form(): ActionForm {
    return this.#options.form ?? "text";
  }

  get #maxSteps(): number {
    return this.#options.maxSteps ?? 10;
  }
}
