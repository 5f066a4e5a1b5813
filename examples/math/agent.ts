// SPDX-License-Identifier: Apache-2.0
// A model answers a sum and, told that it is wrong, may revise its answer once.
import { mathEquivalent } from "@whetstone/graders";
import {
  type Action,
  BaseAgent,
  type ChatMessage,
  createStep,
  createTrajectory,
  defineJob,
  deriveSeed,
  grpo,
  MultiTurnEnvironment,
  type Turn,
} from "@whetstone/sdk";

type Sum = { readonly question: string; readonly answer: string };

export class Sums extends MultiTurnEnvironment<Sum> {
  constructor({ seed }: { readonly seed: number }) {
    const [a, b] = [deriveSeed(seed, "a") % 5, deriveSeed(seed, "b") % 5];
    super({ question: `${a}+${b}=`, answer: String(a + b) }, { maxTurns: 2 });
  }

  getRewardAndNextObs({ answer }: Sum, action: unknown): Turn {
    const success = mathEquivalent(String(action), answer);
    const reward = success ? 1 / this.currentTurn : 0; // The second try is worth half.
    return { reward, nextObservation: { question: "No. Again:" }, terminated: success, info: { success } };
  }
}

export class Adder extends BaseAgent {
  readonly chatCompletions: ChatMessage[] = [];
  readonly trajectory = createTrajectory();
  reset(): void {} // An instance plays one try only.

  updateFromEnv(observation: unknown): void {
    this.chatCompletions.push({ role: "user", content: (observation as Sum).question });
  }

  updateFromModel(response: string): Action {
    this.chatCompletions.push({ role: "assistant", content: response });
    this.trajectory.steps.push(createStep({ modelResponse: response, action: response.trim() }));
    return { action: response.trim() };
  }
}

export default defineJob({
  agent: Adder,
  environment: Sums,
  train: { seeds: { first: 1, count: 1_000_000 } },
  algorithm: grpo({ groupSize: 8, learningRate: 1e-3, clipHigh: 0.28 }),
  loop: { steps: 100, batchGroups: 16 },
  sampling: { maxTokens: 3 },
  limits: { maxSteps: 2, maxPromptTokens: 64, maxResponseTokens: 64, episodeTimeout: "60s" },
});
