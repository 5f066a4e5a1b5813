// SPDX-License-Identifier: Apache-2.0
// A job that trains an agent of some library for two steps. Its agents ask two questions of one conversation. `--set
// agent.args.streamed=true` streams.
import { defineJob, defineRollout, grpo, type ModelEndpoint } from "@whetstone/sdk";

export const QUESTIONS = ["Say aaaa.", "Say it again."] as const;
export const MOST_TOKENS = 12;

/** What an agent is told. */
export interface Told extends Pick<ModelEndpoint, "baseUrl" | "apiKey" | "model"> {
  readonly streamed: boolean;
  readonly signal: AbortSignal;
}

interface Args {
  readonly streamed?: boolean;
}

/** @param answer  asks the next question of a conversation that it keeps, and tells the answer */
export function twoQuestions(kind: string, begin: (told: Told) => (question: string) => Promise<string>) {
  const rollout = defineRollout<Args>({
    kind,
    argsSchema: { type: "object", properties: { streamed: { type: "boolean" } }, additionalProperties: false },
    run: async ({ args, baseUrl, apiKey, model, signal }) => {
      const ask = begin({ baseUrl, apiKey, model, signal, streamed: args.streamed ?? false });
      let said = "";
      for (const question of QUESTIONS) {
        const answer = await ask(question);
        // No library goes on from an answer without a word.
        if (answer === "") break;
        said += answer;
      }
      return { reward: [...said].filter((letter) => letter < "a").length / (QUESTIONS.length * MOST_TOKENS) };
    },
  });
  return defineJob({
    rollout: { kind: rollout, clientSampling: "override" },
    train: { seeds: { first: 1, count: 1_000 } },
    algorithm: grpo({ groupSize: 4, learningRate: 1e-3 }),
    loop: { steps: 2, batchGroups: 2 },
  });
}
