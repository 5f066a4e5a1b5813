// SPDX-License-Identifier: Apache-2.0
// Who plays Harbor's task folders in the test: agents that ask the model, run what they know in the shell, and are done.
import { BaseAgent, createStep, createTrajectory, defineAgent, type RegisteredAgent } from "@whetstone/sdk";

class ShellUser extends BaseAgent {
  readonly #command: (instruction: string) => string;
  readonly trajectory = createTrajectory();
  chatCompletions: { role: "user" | "assistant"; content: string }[] = [];
  #instruction = "";

  constructor(command: (instruction: string) => string) {
    super();
    this.#command = command;
  }

  reset(): void {}

  updateFromEnv(observation: unknown): void {
    const { question } = observation as { question?: string };
    if (question !== undefined) this.#instruction = question;
    this.chatCompletions.push({ role: "user", content: "go on" });
  }

  updateFromModel(response: string) {
    const command = this.#command(this.#instruction);
    const isFirst = this.trajectory.steps.length === 0;
    const action = isFirst ? [{ id: "a", name: "bash", argumentsJson: JSON.stringify({ command }) }] : "done";
    this.chatCompletions.push({ role: "assistant", content: response });
    this.trajectory.steps.push(createStep({ modelResponse: response, action }));
    return { action };
  }
}

const agent = (kind: string, command: (instruction: string) => string): RegisteredAgent =>
  defineAgent({ kind, create: () => new ShellUser(command) });

export const solver = agent("solver", (instruction) => {
  if (instruction.includes("adder")) return "sed -i 's/ - / + /' adder.py";
  if (instruction.includes("prices")) return "awk -F, '{ sum += $2 } END { print sum }' prices.csv >total.txt";
  return "wc -w <text.txt >answer.txt";
});
export const nonsense = agent("nonsense", () => "echo 7 >answer.txt; echo 'print(7)' >adder.py");
export const cheat = agent(
  "cheat",
  () =>
    "echo '{\"reward\": 1}' | tee /logs/verifier/reward.json >/logs/verifier/reward.txt; echo 'exit 0' >/tests/test.sh; chmod 500 /tests",
);
