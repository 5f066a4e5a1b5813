// SPDX-License-Identifier: Apache-2.0
// A generator writes a word backwards, a critic comments, the generator revises. The critic is paid for the improvement.
import { defineJob, grpo, type ChatMessage, type Task, Workflow } from "@whetstone/sdk";

const WORDS = ["stone", "wheel", "blade", "grain", "water", "spark", "metal", "sharp"];

/** Share of the letters that are right. */
function grade(text: string, wanted: string): number {
  const given = text.trim();
  const right = [...wanted].filter((letter, i) => given[i] === letter).length;
  return right / Math.max(wanted.length, given.length);
}

export class GeneratorCritic extends Workflow {
  async run({ payload }: Task): Promise<void> {
    const word = WORDS[Number(payload["seed"]) % WORDS.length] ?? "stone";
    const wanted = [...word].toReversed().join("");
    const talk: ChatMessage[] = [{ role: "user", content: `Write "${word}" backwards.` }];
    const draft = await this.chat("generator", talk);

    const request = `Is "${draft.text}" the word "${word}" backwards? What is wrong?`;
    const critique = await this.chat("critic", [{ role: "user", content: request }]);
    talk.push({ role: "assistant", content: draft.text }, { role: "user", content: critique.text || "Try again." });
    const revision = await this.chat("generator", talk);

    const [before, after] = [grade(draft.text, wanted), grade(revision.text, wanted)];
    revision.step.info = { success: after === 1 };
    this.commit("generator", [draft.step, revision.step], after);
    this.commit("critic", [critique.step], after - before);
  }
}

export default defineJob({
  workflow: GeneratorCritic,
  train: { seeds: { first: 1, count: 1_000_000 } },
  algorithm: grpo({ groupSize: 8, learningRate: 1e-3 }),
  loop: { steps: 100, batchGroups: 16 },
  sampling: { maxTokens: 16 },
  limits: { maxPromptTokens: 256, episodeTimeout: "60s" },
});
