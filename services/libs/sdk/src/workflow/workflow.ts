// SPDX-License-Identifier: Apache-2.0
import { WhetstoneError } from "@whetstone/core";
import { BaseAgent } from "../base-agent.ts";
import type { Awaitable } from "../base-env.ts";
import { computeMcReturns, computeTrajectoryReward } from "../rewards.ts";
import type { ChatMessage, Task, Trajectory } from "../types.ts";
import type {
  AgentPlay,
  AgentPlayOptions,
  OpenEnvironment,
  RoleAnswer,
  RoleChatOptions,
  WorkflowContext,
} from "./context.ts";
import { adjustStepRewards } from "./rewards.ts";
import type { Committable, TrajectoryBook } from "./trajectory-book.ts";

/** What `run` may return; what is absent is worked out from the trajectories. */
export interface WorkflowResult {
  /** The episode's reward where it is not the sum over its trajectories. */
  readonly reward?: number | undefined;
  readonly isCorrect?: boolean | undefined;
  /** Over those of `collectMetrics`. */
  readonly metrics?: Readonly<Record<string, number>> | undefined;
}

/** A workflow's part of an episode. */
export interface WorkflowOutcome {
  readonly trajectories: readonly Trajectory[];
  readonly reward: number;
  readonly isCorrect: boolean;
  readonly metrics: Readonly<Record<string, number>>;
}

/** What the engine gives a workflow: what `run` may use, and what the methods of `Workflow` need beside it. */
export interface WorkflowStage extends WorkflowContext {
  readonly book: TrajectoryBook<Workflow>;
  playAgent(agent: BaseAgent, options: AgentPlayOptions): Promise<AgentPlay>;
  runWorkflow(child: Workflow, task: Task): Promise<WorkflowOutcome>;
}

/** Puts a workflow on its stage; the engine's alone to call. */
export let bindWorkflow: (workflow: Workflow, stage: WorkflowStage) => void;

/**
 * An episode that the user's code leads: it asks models by role, opens environments, and commits a trajectory for each role.
 * One instance plays one try: its fields are that try's own state, and nothing is shared between episodes. Whatever it opens
 * is closed when it ends, and every call in it is bounded by the episode's deadline.
 * `run` ends with ENV_DONE; throw `TerminationEvent` for another end, `EpisodeError` for a failure of a known class.
 * Anything else thrown is a broken task (TASK), which is not played again, except a lost connection (INFRASTRUCTURE).
 */
export abstract class Workflow {
  /** Discount of `adjustStepRewards`. 0: off. */
  readonly gamma: number = 0;
  /** See `adjustStepRewards`. 0: off. */
  readonly rewardBonusCoeff: number = 0;
  #stage: WorkflowStage | undefined;

  static {
    bindWorkflow = (workflow, stage) => {
      if (workflow.#stage)
        throw new WhetstoneError("INVALID_ARGUMENT", "a workflow's instance plays once: make another");
      workflow.#stage = stage;
    };
  }

  abstract run(task: Task, context: WorkflowContext): Awaitable<WorkflowResult | undefined | void>;

  /** Asks the model of a role. */
  chat(role: string, messages: readonly ChatMessage[], options?: RoleChatOptions): Promise<RoleAnswer> {
    return this.#on.rollout(role)(messages, options);
  }

  /** @see OpenEnvironment */
  get openEnvironment(): OpenEnvironment {
    return this.#on.openEnvironment;
  }

  /** Plays an agent against an environment with the engine's loop and budgets, and commits what it did. */
  playAgent(agent: BaseAgent, options: AgentPlayOptions = {}): Promise<AgentPlay> {
    return this.#on.playAgent(agent, options);
  }

  /** Plays another workflow inside this one, under the same deadline; its trajectories become this one's. */
  runWorkflow(child: Workflow, task: Task = this.#on.task): Promise<WorkflowOutcome> {
    return this.#on.runWorkflow(child, task);
  }

  /**
   * Adds a trajectory to a role; a role may have several. Nothing is added without steps.
   * @param reward  goes to the last step.
   */
  commit(role: string, what: Committable, reward?: number): Trajectory {
    return this.#on.book.commit(role, what, reward);
  }

  /** Those committed, then agents held in public fields, then the calls that nobody committed, one trajectory a role. */
  collectTrajectories(): Trajectory[] {
    const { book } = this.#on;
    for (const value of Object.values(this)) {
      if (!(value instanceof BaseAgent)) continue;
      const { name, steps } = value.trajectory;
      if (!book.isTaken(steps)) book.commit(name, value);
    }
    return book.collect();
  }

  /** Sum of the step rewards. */
  computeTrajectoryReward(trajectory: Trajectory): number {
    return computeTrajectoryReward(trajectory);
  }

  /** After the trajectory's reward is known: changes the rewards of its steps alone. */
  adjustStepRewards(trajectory: Trajectory): void {
    adjustStepRewards(trajectory.steps, this);
  }

  /** The environments' verdicts where there are any, else whether the rewards sum to more than 0. */
  assignEpisodeCorrectness(trajectories: readonly Trajectory[]): boolean {
    const verdicts = trajectories
      .map(({ steps }) => steps.at(-1)?.info["success"])
      .filter((v) => typeof v === "boolean");
    return verdicts.length > 0 ? verdicts.every(Boolean) : sumOfRewards(trajectories) > 0;
  }

  /** `<role>_acc`: mean reward of the role's trajectories. */
  collectMetrics(trajectories: readonly Trajectory[]): Record<string, number> {
    const byRole = Map.groupBy(trajectories, ({ name }) => name);
    return Object.fromEntries([...byRole].map(([role, own]) => [`${role}_acc`, sumOfRewards(own) / own.length]));
  }

  /** Called once, when `run` has ended in whatever way. @param gamma  the engine's, of the Monte-Carlo returns. */
  postprocess(result: WorkflowResult, gamma: number): WorkflowOutcome {
    const outcome = this.summarize(result);
    for (const trajectory of outcome.trajectories) {
      computeMcReturns(trajectory.steps, gamma);
      this.#on.book.ownerOf(trajectory).adjustStepRewards(trajectory);
    }
    return outcome;
  }

  /** What there is so far, rewards summed and not yet adjusted. */
  summarize(result: WorkflowResult): WorkflowOutcome {
    const trajectories = this.collectTrajectories();
    for (const trajectory of trajectories) this.#on.book.ownerOf(trajectory).computeTrajectoryReward(trajectory);
    return {
      trajectories,
      reward: result.reward ?? sumOfRewards(trajectories),
      isCorrect: result.isCorrect ?? this.assignEpisodeCorrectness(trajectories),
      metrics: { ...this.collectMetrics(trajectories), ...result.metrics },
    };
  }

  get #on(): WorkflowStage {
    if (this.#stage) return this.#stage;
    throw new WhetstoneError("FAILED_PRECONDITION", "the workflow is not playing: give it to an AgentWorkflowEngine");
  }
}

function sumOfRewards(trajectories: readonly Trajectory[]): number {
  return trajectories.reduce((sum, { reward }) => sum + reward, 0);
}
