// SPDX-License-Identifier: Apache-2.0
// Two solvers add numbers, a judge says whose answer is right. One model plays both roles; each learns from its own reward.
import { defineJob, deriveSeed, grpo, type Task, Workflow, type WorkflowResult } from "@whetstone/sdk";

const SOLVERS = 2;

function sumOf({ payload }: Task): { readonly question: string; readonly answer: string } {
  const seed = Number(payload["seed"]);
  const [a, b] = [deriveSeed(seed, "a") % 5, deriveSeed(seed, "b") % 5];
  return { question: `${a}+${b}=`, answer: String(a + b) };
}

export class SolverJudge extends Workflow {
  async run(task: Task): Promise<WorkflowResult> {
    const { question, answer } = sumOf(task);
    const solve = () => this.chat("solver", [{ role: "user", content: question }]);
    const attempts = await Promise.all(Array.from({ length: SOLVERS }, solve));
    const isRight = attempts.map(({ text }) => text.trim() === answer);
    attempts.forEach(({ step }, i) => this.commit("solver", [step], isRight[i] ? 1 : 0));

    const listed = attempts.map(({ text }, i) => `${i + 1}) ${text.trim()}`).join("\n");
    const verdict = await this.chat("judge", [{ role: "user", content: `${question}\n${listed}\nWhich is right?` }]);
    const chosen = Number(verdict.text.trim()) - 1;
    const isCorrect = isRight[chosen] ?? false;
    this.commit("judge", [verdict.step], isCorrect ? 1 : 0);
    return { isCorrect, metrics: { solved: isRight.filter(Boolean).length / SOLVERS } };
  }
}

export default defineJob({
  workflow: SolverJudge,
  train: { seeds: { first: 1, count: 1_000_000 } },
  algorithm: grpo({ groupSize: 8, learningRate: 1e-3, clipHigh: 0.28 }),
  roles: [{ name: "solver" }, { name: "judge", advantage: "rloo" }],
  loop: { steps: 100, batchGroups: 16 },
  sampling: { maxTokens: 2 },
  limits: { maxPromptTokens: 128, episodeTimeout: "60s" },
});
