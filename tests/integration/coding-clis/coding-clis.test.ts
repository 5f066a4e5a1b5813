// SPDX-License-Identifier: Apache-2.0
// Coding command lines from their packages play episodes, ten tool calls of their own that really happen: one chain of exact
// ids, and what they ask the model beside it is told apart. `make setup-coding-clis` installs them; without them nothing runs
// here, unless WHETSTONE_CODING_CLIS is "required".
import { randomUUID } from "node:crypto";
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { connect } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { MODULE_SETTINGS } from "@whetstone/core";
import { codingCliAgentIn, type RunSandboxed } from "@whetstone/sdk";
import { canHaveSandboxes } from "@whetstone/testkit";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { CommandSandboxes } from "../../../services/rollout-orchestrator/src/agents/command-sandboxes.ts";
import { ANSWER, type Endpoint, openRoom, QUESTION, type Room, TURNS } from "../any-agent/ten-turns.ts";
import { type Cli, CLIS, INSTALLED, readable, SCOUTS, VARIABLES } from "./clis.ts";
import { ASIDE, chainsOf, hasTools, oneChain, saidCall, sayCommands, sorted, turnOf } from "./script.ts";

const LIMIT_MS = 180_000;
const numbers = Array.from({ length: TURNS }, (_, n) => n);

const isLeftOut = !existsSync(join(INSTALLED, ".done")) && process.env["WHETSTONE_CODING_CLIS"] !== "required";

let room: Room;
let folder: string;
beforeAll(async () => {
  room = await openRoom();
});
afterAll(() => room?.[Symbol.asyncDispose]());
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "whetstone-coding-cli-"));
});
afterEach(() => rmSync(folder, { recursive: true, force: true, maxRetries: 3 }));

/** As an episode of a job does it. @param run  absent: it works in `folder` */
async function start({ cli, program }: Cli, endpoint: Endpoint, run?: RunSandboxed): Promise<string> {
  const where = run === undefined ? { cwd: folder } : { sandbox: { readable: readable() } };
  const play = codingCliAgentIn(run).create({ cli, program, env: VARIABLES, ...where });
  const now = { seed: 1, try: 1, signal: AbortSignal.timeout(LIMIT_MS), deadline: Date.now() + LIMIT_MS };
  const task = { id: "t", payload: { question: QUESTION } };
  const result = await play({ ...endpoint, ...now, task, args: {}, episodeId: "e" });
  return (result as { output: string }).output;
}

/** Plays one that is made to run these commands; the prompt of its last call. */
async function playCommands(cli: Cli, commands: readonly string[], run?: RunSandboxed): Promise<string> {
  let last = "";
  const { text, trained, sampled, tree } = await room.play(
    (endpoint) => start(cli, endpoint, run),
    (_, read) => {
      const prompt = read();
      if (hasTools(cli, prompt)) last = prompt;
      return sayCommands(cli, prompt, commands);
    },
  );
  expect(text.trimEnd().endsWith(ANSWER), text).toBe(true);
  const asides = Object.fromEntries(cli.aside.map((role) => [role, [-1]]));
  expect(chainsOf(tree)).toEqual({ agent: oneChain(TURNS + 1), ...asides });
  const beside = tree.calls.filter(({ role }) => role !== "agent");
  expect(beside.map(({ text: said }) => said)).toEqual(cli.aside.map(() => ASIDE));
  expect(sorted(trained)).toEqual(sorted(sampled));
  return last;
}

describe.skipIf(isLeftOut)("coding command lines", () => {
  it.each(CLIS)("$cli reads ten files of a folder", { timeout: LIMIT_MS }, async (cli) => {
    const clues = numbers.map((n) => `clue ${n}: ${randomUUID()}`);
    for (const [n, clue] of clues.entries()) writeFileSync(join(folder, `clue-${n}.txt`), clue);
    const last = await playCommands(
      cli,
      numbers.map((n) => `echo ${n} >> notes.txt; cat clue-${n}.txt`),
    );
    expect(readFileSync(join(folder, "notes.txt"), "utf8")).toBe(numbers.map((n) => `${n}\n`).join(""));
    expect(clues.filter((clue) => !last.includes(clue))).toEqual([]);
  });

  it.each(SCOUTS)("$cli.cli sends a sub-agent out", { timeout: LIMIT_MS }, async ({ cli, sends }) => {
    const task = `Scout ${randomUUID()}`;
    const { text, trained, sampled, tree } = await room.play(
      (endpoint) => start(cli, endpoint),
      (_, read) => {
        const prompt = read();
        if (!prompt.includes(QUESTION)) return sayCommands(cli, prompt, ["echo found > scout.txt"]);
        const send = sends[turnOf(prompt)];
        return send === undefined ? ANSWER : saidCall(send(task, prompt));
      },
    );
    expect(text.trimEnd()).toBe(ANSWER);
    expect(readFileSync(join(folder, "scout.txt"), "utf8")).toBe("found\n");
    expect(chainsOf(tree)).toEqual({ agent: oneChain(sends.length + 1), subagent: oneChain(2) });
    expect(sorted(trained)).toEqual(sorted(sampled));
  });
});

describe.skipIf(isLeftOut || !canHaveSandboxes)("coding command lines in sandboxes", () => {
  let commands: CommandSandboxes;
  beforeAll(() => {
    const { hostname: host, port } = new URL(room.gateway.httpUrl);
    const connectGateway = () => connect({ host, port: Number(port), allowHalfOpen: true });
    // As much as services give: opencode, which has 250 MiB as a rule, had 512 once on a machine with a load of 12.
    const memoryMiB = MODULE_SETTINGS.moduleMemoryMib.parse(undefined);
    commands = new CommandSandboxes({ connectGateway, programFolders: readable(), memoryMiB });
  });
  afterAll(() => commands?.[Symbol.asyncDispose]());

  it.each(CLIS)("$cli computes ten numbers", { timeout: LIMIT_MS }, async (cli) => {
    const shell = numbers.map((n) => `pwd; echo $((7919 * ${n + 1}))`);
    const last = await playCommands(cli, shell, commands.run);
    expect(last).toContain("/workspace");
    expect(numbers.filter((n) => !last.includes(String(7919 * (n + 1))))).toEqual([]);
  });
});
