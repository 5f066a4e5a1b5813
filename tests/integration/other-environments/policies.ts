// SPDX-License-Identifier: Apache-2.0
// Who plays other people's environments in the test: agents that ask the model and then do what they know, and a game that one
// model plays against itself.
import {
  BaseAgent,
  createStep,
  createTrajectory,
  defineAgent,
  defineWorkflow,
  type Step,
  Workflow,
} from "@whetstone/sdk";

/** @param turn  counted from 0 */
type Policy = (observation: string, turn: number) => string;

class Player extends BaseAgent {
  readonly #next: Policy;
  readonly trajectory = createTrajectory();
  chatCompletions: { role: "user" | "assistant"; content: string }[] = [];
  #seen = "";

  constructor(next: Policy) {
    super();
    this.#next = next;
  }

  reset(): void {}

  updateFromEnv(observation: unknown): void {
    this.#seen = String(observation);
    this.chatCompletions.push({ role: "user", content: "go on" });
  }

  updateFromModel(response: string) {
    const action = this.#next(this.#seen, this.trajectory.steps.length);
    this.chatCompletions.push({ role: "assistant", content: response });
    this.trajectory.steps.push(createStep({ modelResponse: response, action }));
    return { action };
  }
}

const agent = (kind: string, create: () => Policy) => defineAgent({ kind, create: () => new Player(create()) });

const SAFE_WAY = ["down", "down", "right", "right", "down", "right"];
export const lake = agent("lake", () => (_, turn) => SAFE_WAY[turn] ?? "down");
export const drunkard = agent("drunkard", () => () => SAFE_WAY[Math.floor(Math.random() * 6)] ?? "down");

export const sums = agent("sums", () => (question) => {
  const terms =
    /(?<sum>\d[-+ \d]*) =/u
      .exec(question)
      ?.groups?.["sum"]?.replaceAll(" ", "")
      .match(/[+-]?\d+/gu) ?? [];
  return String(terms.reduce((sum, term) => sum + Number(term), 0));
});

/** Halves what is left after each hint. */
function halving(first: number, last: number, say: (guess: number) => string): Policy {
  let [low, high, guess] = [first, last, 0];
  return (hint, turn) => {
    if (turn > 0 && hint.includes("higher")) low = guess + 1;
    if (turn > 0 && hint.includes("lower")) high = guess - 1;
    guess = Math.floor((low + high) / 2);
    return say(guess);
  };
}
export const guesses = agent("guesses", () => halving(1, 20, (guess) => `[${guess}]`));
export const numbers = agent("numbers", () => halving(0, 9, String));
export const nonsense = agent("nonsense", () => () => "nonsense");

/** Of four episodes one makes the server of openenv_server.py fail, in one of three ways. */
export const trouble = agent("trouble", () => {
  const fault = ["990", "992", "993"][Math.floor(Math.random() * 12)];
  return fault === undefined ? halving(0, 9, String) : () => fault;
});

/** Both sides of a game for two: who wins gets 1, who loses -1, as the game says. */
class SelfPlay extends Workflow {
  async run(): Promise<void> {
    const game = await this.openEnvironment();
    const last = new Map<unknown, Step>();
    let { observation, info } = await game.reset();
    for (let done = false; !done;) {
      const { player } = info;
      const { step } = await this.chat(`player ${String(player)}`, [{ role: "user", content: "your move" }]);
      last.set(player, step);
      const moves =
        String(observation)
          .split("Available Moves:")
          .at(-1)
          ?.match(/\[\d\]/gu) ?? [];
      const result = await game.step(moves[Math.floor(Math.random() * moves.length)] ?? "[0]");
      ({ observation, info } = result);
      done = result.terminated;
    }
    const rewards = info["rewards"] as Record<string, number>;
    for (const [player, step] of last) step.reward = rewards[String(player)] ?? 0;
  }
}
export const selfPlay = defineWorkflow({ kind: "self-play", create: () => new SelfPlay() });
