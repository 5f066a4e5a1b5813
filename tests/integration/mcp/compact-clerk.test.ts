// SPDX-License-Identifier: Apache-2.0
// The agent of examples/mcp-tools, which makes letters of names: with the official filesystem server in a sandbox every kind of question
// can be answered by two characters a turn.
import { createRng } from "@whetstone/core";
import { exactMatchReward } from "@whetstone/graders";
import { openMcpTools } from "@whetstone/mcp";
import { ProcessBackend } from "@whetstone/sandbox";
import { inventedNames } from "@whetstone/search";
import { AgentExecutionEngine, type ChatMessage } from "@whetstone/sdk";
import { canHaveSandboxes } from "@whetstone/testkit";
import { ToolEnvironment } from "@whetstone/tools";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { Clerk, TOOLS } from "../../../examples/mcp-tools/agent.ts";
import { Notes, ROOT } from "../../../examples/mcp-tools/notes.ts";
import { KINDS, type Question } from "../../../examples/mcp-tools/tasks.ts";
import { SERVERS } from "./episodes.ts";

const SERVER = ["node", "{servers}/@modelcontextprotocol/server-filesystem/dist/index.js", ROOT];
const LIMITS = { startTimeoutMs: 30_000, callTimeoutMs: 10_000, maxMessageBytes: 2 ** 20 };

/** Reads the notes alone: what a model could learn to do. */
function readNotes(notes: string): string {
  const [question = ""] = notes.split("\n");
  const find = (pattern: RegExp): string | undefined => pattern.exec(notes)?.[1];
  if (question.includes("holds")) return answerOr(find(/: in (\w)/u), "sa");
  const [, entry] = /^What (file|folder) lies/u.exec(question) ?? [];
  if (entry !== undefined) return answerOr(find(new RegExp(`${entry} (\\w)[,.]`, "u")), "la");
  const [, fact] = /say of the (\w+)/u.exec(question) ?? [];
  return answerOr(find(new RegExp(`${fact} (\\w)[,.]`, "u")), "ra");
}

function answerOr(letter: string | undefined, call: string): string {
  return letter === undefined ? call : `=${letter}`;
}

describe.runIf(canHaveSandboxes)("questions about files", { timeout: 120_000 }, () => {
  let backend: ProcessBackend;
  beforeAll(async () => {
    backend = await ProcessBackend.start();
  });
  afterAll(async () => await backend[Symbol.asyncDispose]());

  function engine(asked: Question, answer: (notes: string) => string) {
    const server = { command: SERVER, serversPath: SERVERS, files: asked.files, memoryMiB: 2048 };
    let calls = 0;
    const chat = async ([message]: readonly ChatMessage[]) => {
      calls += 1;
      const usage = { promptTokens: 9, completionTokens: 2 };
      const text = answer(String(message?.content));
      return await Promise.resolve({ text, finishReason: "stop", usage, callId: `c${calls}` });
    };
    return new AgentExecutionEngine({
      rolloutClient: { chat },
      agentFactory: () => new Clerk(),
      environmentFactory: () =>
        new ToolEnvironment({
          task: { question: asked.question, answer: asked.answer },
          tools: () =>
            openMcpTools(server, { ...LIMITS, tools: Object.values(TOOLS), backend: () => Promise.resolve(backend) }),
          rewardFunction: exactMatchReward({}),
          maxSteps: 3,
        }),
    });
  }

  async function play(kind: string, answer: (notes: string) => string) {
    const rng = createRng(7);
    const ask = KINDS[kind] as (typeof KINDS)[string];
    const task = { id: kind, payload: {} };
    const episode = await engine(ask(inventedNames(rng), rng), answer).runEpisode({ id: kind, task, seed: 1 });
    expect(episode.failure.message).toBe("");
    return episode.reward;
  }

  it.each(Object.keys(KINDS))("%s: is answered by who reads, and not by who calls another tool", async (kind) => {
    expect(await play(kind, readNotes)).toBe(1);
    const other = kind === "holder" ? "la" : "sa";
    expect(await play(kind, (notes) => (notes.includes("\n") ? "=b" : other))).toBe(0);
  });

  it("what is no call of a name is an answer, and a wrong one", async () => {
    for (const said of ["", "l", "lz", "xa", "=q"]) expect(await play("file", () => said)).toBe(0);
  });
});

it("notes name what was read by letters, once each", () => {
  const notes = new Notes("What does the file in Gorethal say of the seat?");
  notes.add("l", "Gorethal", "[DIR] Misorn\n[FILE] Thaezu\n", false);
  notes.add("r", "Thaezu", "river Brilou\nseat Fethas\n", false);
  notes.add("r", "Thaezu", "river Brilou\nseat Fethas\n", false);
  notes.add("l", "Thaezu", "ENOTDIR", true);
  notes.add("s", "Fethas", "No matches found", false);
  expect(notes.text.split("\n")).toEqual([
    "What does the file in a say of the seat?",
    "l a: folder b, file c.",
    "r c: river d, seat e.",
    "l c: error.",
    "s e: No matches found.",
  ]);
  expect(notes.pathOf("Thaezu")).toBe("/workspace/Gorethal/Thaezu");
});
