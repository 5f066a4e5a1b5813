// SPDX-License-Identifier: Apache-2.0
import {
  type Action,
  BaseAgent,
  type ChatMessage,
  createStep,
  createTrajectory,
  type Info,
  type ModelAnswer,
  type SeenImage,
  splitThinking,
  type Trajectory,
} from "@whetstone/sdk";
import { type Observation, pageText } from "../episode/observation.ts";

export interface WebAgentOptions {
  /** {actions} is what may be done, as the environment says it. */
  readonly systemTemplate?: string | undefined;
  /**
   * all (default): one conversation, in which every page that was seen stays; last: each turn the model sees the newest page alone,
   * with its own actions so far.
   */
  readonly history?: "all" | "last" | undefined;
  /** The model is shown the pictures that the environment gives, beside the text. Default: false. */
  readonly images?: boolean | undefined;
}

export const WEB_SYSTEM_TEMPLATE = `You are an agent trying to solve a web task based on the content of the page and a user's instructions. You can interact with the page and explore. Each time you submit an action it will be sent to the browser and you will receive a new page.

# Action Space
{actions}

Think about what to do next, then give the action.`;

/** Reads pages, as text and if wanted as pictures, and answers with an action in BrowserGym's grammar; for the environment `browser` with `actions: text`. */
export class WebAgent extends BaseAgent {
  readonly #options: WebAgentOptions;
  #system = "";
  #goal = "";
  #messages: ChatMessage[] = [];
  #actions: string[] = [];
  #trajectory = createTrajectory();
  #observation: unknown;
  #images: readonly SeenImage[] = [];

  constructor(options: WebAgentOptions = {}) {
    super();
    this.#options = options;
  }

  get chatCompletions(): readonly ChatMessage[] {
    const system: ChatMessage[] = this.#system === "" ? [] : [{ role: "system", content: this.#system }];
    return [...system, ...this.#messages];
  }

  get trajectory(): Trajectory {
    return this.#trajectory;
  }

  reset(): void {
    this.#system = this.#goal = "";
    this.#messages = [];
    this.#actions = [];
    this.#trajectory = createTrajectory();
  }

  override lookAt(images: readonly SeenImage[]): void {
    this.#images = this.#options.images === true ? images : [];
  }

  updateFromEnv(observation: unknown, _reward: number, done: boolean, info: Info): void {
    this.#observation = observation;
    if (done) return;
    const seen = observation as Observation;
    const isFirst = this.#goal === "";
    if (isFirst) this.#introduce(seen, info);
    if (this.#options.history === "last") this.#messages = [this.#shown(this.#newestOnly(seen))];
    else this.#messages.push(this.#shown(isFirst ? withGoal(this.#goal, seen) : withError(seen)));
  }

  updateFromModel(response: string, answer: Partial<ModelAnswer>): Action {
    const { thought, answer: said } = splitThinking(response);
    const action = actionOf(said);
    this.#actions.push(action);
    if (this.#options.history !== "last") this.#messages.push(echoOf(response, answer));
    const own = {
      observation: this.#observation,
      modelResponse: response,
      thought: answer.reasoning ?? thought,
      action,
    };
    this.#trajectory.steps.push(createStep({ ...own, chatCompletions: [...this.chatCompletions] }));
    return { action };
  }

  #shown(content: string): ChatMessage {
    return { role: "user", content, ...(this.#images.length === 0 ? {} : { images: this.#images }) };
  }

  #introduce({ goal }: Observation, { actionSpace }: Info): void {
    this.#goal = goal;
    const { systemTemplate = WEB_SYSTEM_TEMPLATE } = this.#options;
    this.#system = systemTemplate.replace("{actions}", () => (typeof actionSpace === "string" ? actionSpace : ""));
  }

  #newestOnly(seen: Observation): string {
    const done = this.#actions.length === 0 ? "" : `\n\n# Actions so far\n${this.#actions.join("\n")}`;
    return `${withGoal(this.#goal, seen)}${done}${errorOf(seen)}`;
  }
}

function withGoal(goal: string, seen: Observation): string {
  return `# Goal\n${goal}\n\n# Page\n${pageText(seen)}`;
}

function withError(seen: Observation): string {
  return `# Page\n${pageText(seen)}${errorOf(seen)}`;
}

function errorOf({ lastActionError }: Observation): string {
  return lastActionError === "" ? "" : `\n\n# Error of the last action\n${lastActionError}`;
}

/** The last block between backticks, or all of it: what stands around calls is skipped by who reads them. */
function actionOf(said: string): string {
  const blocks = [...said.matchAll(/```(?:\w*\n)?([\s\S]*?)```/gu)];
  return (blocks.at(-1)?.[1] ?? said).trim();
}

function echoOf(content: string, { reasoning }: Partial<ModelAnswer>): ChatMessage {
  return { role: "assistant", content, ...(reasoning === undefined ? {} : { reasoning }) };
}
