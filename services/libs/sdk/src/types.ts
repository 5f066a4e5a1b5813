// SPDX-License-Identifier: Apache-2.0
import type { Failure, TerminationReason } from "./failure.ts";
import type { ImagePart, SeenImage } from "./images.ts";

// The nouns of rLLM, with its names and meaning, in camelCase. On the platform, token ids and log-probabilities are not
// here: the gateway records them at sampling, and `Step.callId` names the record (I4). Without a platform a step carries
// them, where they were asked for: exactly the server's, never text that was tokenised again.

export type Info = Readonly<Record<string, unknown>>;

/** One message in the shape of the OpenAI chat API. */
export interface ChatMessage {
  readonly role: "system" | "user" | "assistant" | "tool";
  readonly content: string;
  /** Pictures after the text, for models that see. Absent: none. */
  readonly images?: readonly ImagePart[];
  readonly name?: string;
  readonly toolCalls?: readonly ToolCall[];
  /** The call that a `tool` message answers. */
  readonly toolCallId?: string;
  /** An assistant's thinking, where it is kept apart from the content. */
  readonly reasoning?: string;
}

export interface ToolCall {
  readonly id: string;
  readonly name: string;
  /** JSON text, exactly as the model wrote it; may be invalid JSON. */
  readonly argumentsJson: string;
}

/** One thing to attempt. */
export interface Task {
  readonly id: string;
  /** What the environment receives beside its own arguments. */
  readonly payload: Info;
}

/** What an agent decided. `undefined` and `""` stand for "no valid action". */
export interface Action {
  readonly action: unknown;
}

/**
 * One turn. Agents open it with `createStep`; the engine writes `callId`, ids, `reward`, `done`, `info` and `mcReturn`, and
 * `observation`, `images`, `chatCompletions` and `thought` where the agent left them empty.
 */
export interface Step {
  /** What the agent saw. */
  observation: unknown;
  /** Pictures that the environment showed beside it. Absent: none. */
  images?: readonly SeenImage[] | undefined;
  /** The conversation after the answer. */
  chatCompletions: readonly ChatMessage[];
  modelResponse: string;
  /** The model's thinking, where separated. */
  thought: string;
  action: unknown;
  /** In the environment's units. */
  reward: number;
  done: boolean;
  info: Info;
  /** Discounted sum of the rewards from this step on. */
  mcReturn: number;
  /** The model call of this turn, as the gateway names it. Empty: the client gave none. */
  callId: string;
  /** What the model saw, whole. Absent: not asked for. */
  promptIds?: readonly number[] | undefined;
  /** What it sampled, end-of-turn token included. As `promptIds`. */
  completionIds?: readonly number[] | undefined;
  /** Natural logarithms at sampling, one for each of `completionIds`. */
  logprobs?: readonly number[] | undefined;
}

/** The steps of one role. */
export interface Trajectory {
  /** Unique within the episode. */
  readonly uid: string;
  /** The role, "agent" by default. */
  readonly name: string;
  readonly steps: Step[];
  /** Sum of the step rewards. */
  reward: number;
  info: Info;
}

/** Where an episode's time went, milliseconds. */
export interface EpisodeTiming {
  totalMs: number;
  modelMs: number;
  /** Reset, step, reward and close. */
  environmentMs: number;
  /** Back-off between tries. */
  waitingMs: number;
}

/** What `AgentExecutionEngine.runEpisode` returns, whatever happened. */
export interface Episode {
  readonly id: string;
  readonly task: Task;
  readonly seed: number;
  readonly terminationReason: TerminationReason;
  readonly failure: Failure;
  /** Empty when it failed before the first step. */
  readonly trajectories: readonly Trajectory[];
  /** Sum over the trajectories. */
  readonly reward: number;
  /** The environment's verdict (`info.success`), else `reward > 0`. */
  readonly isCorrect: boolean;
  /** Free numbers: agent's and environment's. */
  readonly metrics: Readonly<Record<string, number>>;
  /** Masked in the loss by the overlong filter. */
  readonly masked: boolean;
  /** The observation after the last step. */
  readonly finalObservation: unknown;
  /** How often it was played, from 1. */
  readonly tries: number;
  readonly startedAtMs: number;
  readonly timing: EpisodeTiming;
}

/** A step with every field set; agents override what they know. */
export function createStep(fields: Partial<Step> = {}): Step {
  return {
    observation: undefined,
    chatCompletions: [],
    modelResponse: "",
    thought: "",
    action: undefined,
    reward: 0,
    done: false,
    info: {},
    mcReturn: 0,
    callId: "",
    ...fields,
  };
}

export function createTrajectory(fields: Partial<Trajectory> = {}): Trajectory {
  return { uid: "t0", name: "agent", steps: [], reward: 0, info: {}, ...fields };
}
