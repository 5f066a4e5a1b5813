// SPDX-License-Identifier: Apache-2.0
import type { SeenImage } from "./images.ts";
import type { ModelAnswer, ToolSpec } from "./rollout-client.ts";
import type { Action, ChatMessage, Info, Step, Trajectory } from "./types.ts";

/**
 * Turns observations into messages and answers into actions. One instance plays one try of one episode.
 * Order of calls: `reset`, `updateFromEnv` (first observation), then per turn `chatCompletions`, `updateFromModel`,
 * `updateFromEnv`. An answer that holds no action is the agent's to handle: return `{ action: "" }`, or throw
 * `EpisodeError("POLICY", …)` to end the episode with the reward so far.
 */
export abstract class BaseAgent {
  /** What goes to the model next. */
  abstract get chatCompletions(): readonly ChatMessage[];

  /** All steps so far; the engine reads and completes them. */
  abstract get trajectory(): Trajectory;

  /** @param info  the environment's, plus `maxSteps` (environment steps allowed) and `curTokens` (budget used so far). */
  abstract updateFromEnv(observation: unknown, reward: number, done: boolean, info: Info): void;

  /** Opens or completes exactly one Step. */
  abstract updateFromModel(response: string, answer: ModelAnswer): Action;

  abstract reset(): void;

  /** The pictures beside an observation, an empty list where there are none; called just before its `updateFromEnv`. */
  lookAt?(images: readonly SeenImage[]): void;

  /** What the model may call, asked before each call, for servers that render and parse tools themselves. */
  tools?(): readonly ToolSpec[];

  getCurrentState(): Step | undefined {
    return this.trajectory.steps.at(-1);
  }
}
