// SPDX-License-Identifier: Apache-2.0
// A pretrained model is asked for sums of two-digit numbers, and learns to be right more often. See README.md.
import { BaseAgent, type ChatMessage, createStep, createTrajectory, defineJob, deriveSeed, grpo } from "@whetstone/sdk";
import { type Action, type Info, SingleTurnEnvironment } from "@whetstone/sdk";

interface Sum extends Info {
  readonly question: string;
  readonly answer: number;
}

/** Half the reward at most for digits that stand at their place: the model starts with hardly a right sum to learn from. */
function closeness(said: string, answer: string): number {
  const [digits, expected] = [said.padStart(3, "0"), answer.padStart(3, "0")];
  if (digits.length > 3) return 0;
  return [0, 1, 2].filter((place) => digits[place] === expected[place]).length / 6;
}

export class Sums extends SingleTurnEnvironment<Sum> {
  constructor({ seed }: { readonly seed: number }) {
    const [a, b] = [10 + (deriveSeed(seed, "a") % 90), 10 + (deriveSeed(seed, "b") % 90)];
    super({
      task: { question: `${a} + ${b} =`, answer: a + b },
      rewardFunction: ({ answer }, text) => {
        const said = text.match(/\d+/g)?.at(-1);
        if (said === undefined) return { reward: 0, isCorrect: false, metadata: {} };
        const isCorrect = Number(said) === answer;
        return { reward: isCorrect ? 1 : closeness(said, String(answer)), isCorrect, metadata: { said } };
      },
    });
  }
}

export class Calculator extends BaseAgent {
  /** One sum that is done shows the form of an answer. */
  readonly chatCompletions: ChatMessage[] = [
    { role: "system", content: "Answer with the number only." },
    { role: "user", content: "23 + 14 =" },
    { role: "assistant", content: "37" },
  ];
  readonly trajectory = createTrajectory();
  reset(): void {} // An instance plays one try only.

  updateFromEnv({ question }: Partial<Sum>): void {
    if (question !== undefined) this.chatCompletions.push({ role: "user", content: question });
  }

  updateFromModel(response: string): Action {
    this.chatCompletions.push({ role: "assistant", content: response });
    this.trajectory.steps.push(createStep({ modelResponse: response, action: response }));
    return { action: response };
  }
}

export default defineJob({
  agent: Calculator,
  environment: Sums,
  train: { seeds: { first: 1_000, count: 1_000_000 } },
  validation: {
    dataset: { seeds: { first: 1, count: 64 } },
    everySteps: 20,
    variants: [{ name: "greedy", sampling: { temperature: 0, maxTokens: 6 } }],
  },
  // The first steps of Adam are its longest: at full length one of two runs grew certain of wrong sums.
  algorithm: grpo({ groupSize: 8, learningRate: 2e-5, warmupSteps: 4, lossDenominator: "signal" }),
  loop: { steps: 40, batchGroups: 8, maxPolicyLag: 1, checkpointEvery: 20 },
  sampling: { maxTokens: 6 },
  limits: { maxSteps: 1, maxPromptTokens: 128, maxResponseTokens: 16, episodeTimeout: "120s" },
});
