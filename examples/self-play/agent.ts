// SPDX-License-Identifier: Apache-2.0
// Tic-tac-toe against oneself: one model plays both sides, the winner's reward is the loser's loss.
import { defineJob, grpo, type Step, Workflow } from "@whetstone/sdk";

type Side = "X" | "O";
const LINES = ["012", "345", "678", "036", "147", "258", "048", "246"].map((line) => [...line].map(Number));

export class TicTacToe extends Workflow {
  readonly board: string[] = [..."123456789"];
  readonly #last = new Map<Side, Step>();

  async run(): Promise<void> {
    for (let move = 0; move < 9; move += 1) {
      const side: Side = move % 2 === 0 ? "X" : "O";
      const { text, step } = await this.chat(`player ${side}`, [{ role: "user", content: this.#show(side) }]);
      this.#last.set(side, step);
      const cell = Number(text.trim()) - 1;
      if (this.board[cell] !== text.trim()) return this.#settle(side, -1); // A move against the rules loses.
      this.board[cell] = side;
      if (LINES.some((line) => line.every((i) => this.board[i] === side))) return this.#settle(side, 1);
    }
    this.#settle("X", 0);
  }

  #show(side: Side): string {
    const rows = [0, 3, 6].map((i) => this.board.slice(i, i + 3).join(" "));
    return `${rows.join("\n")}\n${side} to move:`;
  }

  /** A side that has not moved yet has no trajectory: then only the other one learns. */
  #settle(side: Side, reward: number): void {
    for (const [player, step] of this.#last) step.reward = player === side ? reward : -reward;
  }
}

export default defineJob({
  workflow: TicTacToe,
  train: { seeds: { first: 1, count: 1_000_000 } },
  algorithm: grpo({ groupSize: 16, learningRate: 1e-3 }),
  loop: { steps: 100, batchGroups: 8 },
  sampling: { maxTokens: 2 },
  limits: { maxPromptTokens: 64, gamma: 0.9, episodeTimeout: "60s" },
});
