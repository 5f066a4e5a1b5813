// SPDX-License-Identifier: Apache-2.0
// Policies whose actions are written down, for tasks of code, of repairing a library, of tools of an MCP server, of questions and of
// pages: one that knows the answers, one that guesses.
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { JsonObject } from "@bufbuild/protobuf";
import { ProcessBackend } from "@whetstone/sandbox";
import { LibraryStore, makeLibrary, makeTasks, reverseEdits } from "@whetstone/swe";
import { SMALL_PIN, SMALL_TASK, smallSources } from "@whetstone/swe/test-support";
import { smallJob } from "./local-runtime.ts";

/** A task, and what a policy does turn by turn: with the answer, and without. */
export interface Scripted {
  readonly id: string;
  readonly payload: JsonObject & { readonly question?: string };
  readonly told: string;
  readonly oracle: readonly unknown[];
  readonly random: readonly unknown[];
}

const program = (body: string): string => `\`\`\`python\n${body}\n\`\`\``;
const call = (name: string, args: JsonObject) => [{ name, argumentsJson: JSON.stringify(args) }];
const bash = (command: string) => call("bash", { command });

export const SUMS: readonly Scripted[] = [2, 3, 5, 7].map((factor) => {
  const question = `Print ${factor} times the number that is read.`;
  const cases = [1, 4, 9].map((n) => ({ input: String(n), output: String(factor * n) }));
  const tests: JsonObject = { kind: "stdin", cases };
  return {
    id: `times-${factor}`,
    payload: { question, tests },
    told: question,
    oracle: [program(`print(${factor} * int(input()))`)],
    random: [program("print(input())")],
  };
});

/** An MCP server of each episode's own that dies, hangs or talks nonsense at one call of seven. */
export const UNSTEADY_SERVER: JsonObject = {
  command: ["node", "server.mjs", "unsteady"],
  files: { "server.mjs": readFileSync(join(import.meta.dirname, "../integration/mcp/odd-server.mjs"), "utf8") },
  callTimeoutMs: 3000,
};

export const WORDS: readonly Scripted[] = ["tea", "bread", "milk", "salt"].map((word) => {
  const question = `Let the tool say ${word}, and answer with the word after it.`;
  return {
    id: word,
    payload: { question, answer: `${word} and more`, grader: "exact" },
    told: question,
    oracle: [call("say", { word }), `${word} and more`],
    random: [word],
  };
});

/** For a retriever that finds "<query> and more". */
export const QUESTIONS: readonly Scripted[] = ["tea", "bread", "milk", "salt"].map((word) => {
  const question = `What goes with ${word}?`;
  return {
    id: word,
    payload: { question, answer: [`${word} and more`] },
    told: question,
    oracle: [call("search", { query: word }), `${word} and more`],
    random: [call("search", { query: "anything" }), "anything"],
  };
});

/** A page whose buttons are always these, the other one is wrong. One may lie on the other: then it is reached by the keyboard. */
export const PAGES: readonly Scripted[] = [
  {
    id: "click-test-2",
    payload: { miniwob: "click-test-2" },
    told: "Click button ONE.",
    oracle: ["click('13')", "press('13', 'Enter')"],
    random: ["click('14')", "press('14', 'Enter')"],
  },
];

export interface ScriptedUse {
  readonly kind: "code" | "swe" | "mcp" | "search" | "browser";
  readonly args: JsonObject;
  readonly tasks: readonly Scripted[];
}

export interface ScriptedJobOptions {
  readonly name: string;
  readonly model: string;
  readonly policy: "oracle" | "random";
  readonly steps: number;
  /** Groups of four a step. */
  readonly groups: number;
}

/** A job of a policy; its module and its tasks are written into the folder. */
export function scriptedJob(folder: string, { kind, args, tasks }: ScriptedUse, options: ScriptedJobOptions) {
  const { name, model, policy, steps, groups } = options;
  const file = join(folder, `${kind}.jsonl`);
  writeFileSync(file, tasks.map(({ id, payload }) => `${JSON.stringify({ id, payload })}\n`).join(""));
  writeFileSync(join(folder, `${kind}.ts`), policies(tasks));
  return {
    ...smallJob(name, model, { steps, lag: 1, groups }),
    agent: { kind: policy },
    environment: { kind, args },
    module: { path: `./${kind}.ts` } as JsonObject,
    train: { jsonl: file, repeat: 1000 },
    limits: { maxSteps: 4, maxPromptTokens: 256, maxResponseTokens: 256, episodeTimeout: "300s", retryLimit: 4 },
  };
}

/** The module of two agents, "oracle" and "random", that ask the model and do what their script says. */
function policies(tasks: readonly Scripted[]): string {
  const scripts = (name: "oracle" | "random"): string =>
    JSON.stringify(Object.fromEntries(tasks.map((task) => [task.told, task[name]])));
  return `
import { BaseAgent, createStep, createTrajectory, defineAgent } from "@whetstone/sdk";
class Scripted extends BaseAgent {
  trajectory = createTrajectory();
  chatCompletions = [];
  turn = 0;
  constructor(scripts) { super(); this.scripts = scripts; }
  reset() {}
  updateFromEnv(observation) {
    this.script ??= this.scripts[observation?.question ?? observation?.goal];
    this.chatCompletions.push({ role: "user", content: "go on" });
  }
  updateFromModel(response) {
    const action = this.script[this.turn++] ?? "done";
    this.chatCompletions.push({ role: "assistant", content: response });
    this.trajectory.steps.push(createStep({ modelResponse: response, action }));
    return { action };
  }
}
export const oracle = defineAgent({ kind: "oracle", create: () => new Scripted(${scripts("oracle")}) });
export const random = defineAgent({ kind: "random", create: () => new Scripted(${scripts("random")}) });
`;
}

/** Images have Python where repairs are judged, and no `patch`. */
function applied(edits: ReturnType<typeof reverseEdits>): string {
  return `python3 - '${Buffer.from(JSON.stringify(edits)).toString("base64")}' <<'END'
import base64, json, sys
for edit in reversed(json.loads(base64.b64decode(sys.argv[1]))):
    with open(edit["path"]) as file:
        lines = file.readlines()
    start = edit["line"] - 1
    lines[start : start + len(edit["before"].splitlines())] = edit["after"].splitlines(True)
    with open(edit["path"], "w") as file:
        file.writelines(lines)
END`;
}

/** A library of our own, which it makes in the folder, and repairs of it. */
export async function repairs(folder: string): Promise<readonly Scripted[]> {
  await using backend = await ProcessBackend.start();
  await makeLibrary(SMALL_PIN, { folder, sources: smallSources, backend });
  await using libraries = new LibraryStore(folder, backend);
  const signal = new AbortController().signal;
  const made = await makeTasks(await libraries.open(SMALL_TASK.library), {
    ...{ backend, count: 4, pairs: 0, seed: 3, signal },
  });
  return made.map(({ id, payload }) => ({
    id,
    payload: { ...structuredClone(payload) },
    told: payload.statement,
    oracle: [bash("ls"), bash(applied(reverseEdits(payload.edits)))],
    random: [bash("ls"), bash("sed -i s/0/1/ tally/core.py")],
  }));
}
