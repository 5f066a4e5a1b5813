// SPDX-License-Identifier: Apache-2.0
// Coding command lines from their packages play an episode of ten tool calls of their own, which really happen in a folder:
// one chain of exact ids, and what they ask the model beside it is told apart. `make setup-coding-clis` installs them; without
// them nothing runs here, unless WHETSTONE_CODING_CLIS is "required".
import { randomUUID } from "node:crypto";
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { codingCliAgentIn } from "@whetstone/sdk";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { ANSWER, type Endpoint, openRoom, QUESTION, type Room, TURNS } from "../any-agent/ten-turns.ts";
import { CLIS, type Cli, INSTALLED } from "./clis.ts";

const LIMIT_MS = 180_000;
const ASIDE = "The lost key";

const isLeftOut = !existsSync(join(INSTALLED, ".done")) && process.env["WHETSTONE_CODING_CLIS"] !== "required";

describe.skipIf(isLeftOut)("coding command lines", () => {
  let room: Room;
  beforeAll(async () => {
    room = await openRoom();
  });
  afterAll(() => room?.[Symbol.asyncDispose]());

  let folder: string;
  const clues = Array.from({ length: TURNS }, (_, n) => `clue ${n}: ${randomUUID()}`);
  beforeEach(() => {
    folder = mkdtempSync(join(tmpdir(), "whetstone-coding-cli-"));
    for (const [n, clue] of clues.entries()) writeFileSync(join(folder, `clue-${n}.txt`), clue);
  });
  afterEach(() => rmSync(folder, { recursive: true, force: true, maxRetries: 3 }));

  it.each(CLIS)("$cli", { timeout: LIMIT_MS }, async (cli) => {
    const prompts: string[] = [];
    const { text, trained, sampled, tree } = await room.play(
      (endpoint) => start(cli, endpoint, folder),
      (_, prompt) => {
        prompts.push(prompt());
        return sayAt(cli, prompt());
      },
    );
    expect(text).toContain(ANSWER);
    expect(readFileSync(join(folder, "notes.txt"), "utf8")).toBe(clues.map((_, n) => `${n}\n`).join(""));
    const last = prompts.findLast((prompt) => isOwn(cli, prompt)) ?? "";
    expect(clues.filter((clue) => !last.includes(clue))).toEqual([]);
    expect(sorted(trained)).toEqual(sorted(sampled));

    const own = tree.calls.filter(({ role }) => role === "agent");
    expect(own.map(({ parentId }) => parentId)).toEqual(["", ...own.slice(0, -1).map(({ id }) => id)]);
    expect(own.length).toBe(TURNS + 1);
    const aside = tree.calls.filter(({ role }) => role !== "agent");
    expect(aside.map(({ role, text: said }) => ({ role, said }))).toEqual(
      cli.aside.map((role) => ({ role, said: ASIDE })),
    );
    expect(aside.every(({ parentId }) => parentId === "")).toBe(true);
  });
});

/** As a job's episode does it. */
async function start({ cli, program, variables }: Cli, endpoint: Endpoint, folder: string): Promise<string> {
  const play = codingCliAgentIn().create({ cli, program, cwd: folder, env: variables });
  const now = { seed: 1, try: 1, signal: AbortSignal.timeout(LIMIT_MS), deadline: Date.now() + LIMIT_MS };
  const task = { id: "t", payload: { question: QUESTION } };
  const result = await play({ ...endpoint, ...now, task, args: {}, episodeId: "e" });
  return JSON.stringify(result);
}

/** Its own tools are in the prompt of its rollout alone. */
function isOwn({ call }: Cli, prompt: string): boolean {
  return prompt.includes("<tools>") && prompt.includes(`"name": "${call("").name}"`);
}

function sayAt(cli: Cli, prompt: string): string {
  if (!isOwn(cli, prompt)) return ASIDE;
  const turn = prompt.split("\n<tool_response>").length - 1;
  if (turn < TURNS) return `Looking, ${turn}.\n${called(cli, `echo ${turn} >> notes.txt; cat clue-${turn}.txt`)}`;
  return cli.end === undefined ? ANSWER : `${ANSWER}\n${called(cli, cli.end)}`;
}

function called({ call }: Cli, command: string): string {
  return `<tool_call>\n${JSON.stringify(call(command))}\n</tool_call>`;
}

/** Those that run at once may reach gateway and engine in another order. */
function sorted(chains: readonly number[][]): string[] {
  return chains.map((ids) => ids.join(" ")).toSorted();
}
