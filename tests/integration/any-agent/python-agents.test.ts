// SPDX-License-Identifier: Apache-2.0
// Agents of Python's usual libraries, only base URL and key set: ten tool turns, streamed and whole, one chain of ids.
// `make setup-python-agents` installs the libraries; without them nothing runs here, unless WHETSTONE_PYTHON_AGENTS is "required".
import { execFile } from "node:child_process";
import { existsSync } from "node:fs";
import { join, resolve } from "node:path";
import { promisify } from "node:util";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { ANSWER, type Endpoint, ONE_CHAIN, openRoom, QUESTION, type Room, TURNS } from "./ten-turns.ts";

const PYTHON = resolve(import.meta.dirname, "../../../.whetstone/python-agents/bin/python");
const LIMIT_MS = 120_000;
const AGENTS = ["openai-chat", "openai-responses", "anthropic", "langgraph", "smolagents"];
const BOTH = AGENTS.flatMap((name) => [false, true].map((stream): [string, boolean] => [name, stream]));

/** What the model says, where the library wants a call in every turn: the gateway begins it. */
const SAY: Readonly<Record<string, (turn: number) => string>> = {
  smolagents: (turn) => {
    const look = { place: `drawer <${turn}> é`, n: turn };
    const [name, args] = turn < TURNS ? ["look", look] : ["final_answer", { answer: ANSWER }];
    return `${name}", "arguments": ${JSON.stringify(args)}}\n</tool_call>`;
  },
};

/** What the model called is text of the library's own in its next turn, so every call begins anew; its ids are exact all the same. */
const REWRITES = new Set(["smolagents"]);

interface Said {
  readonly text: string;
  readonly seen: unknown[];
}

async function play(name: string, stream: boolean, { baseUrl, apiKey, model }: Endpoint): Promise<Said> {
  const program = join(import.meta.dirname, "python/agents.py");
  const told = [name, String(stream), baseUrl, apiKey, model, QUESTION];
  const { stdout } = await promisify(execFile)(PYTHON, [program, ...told], { timeout: LIMIT_MS });
  return JSON.parse(stdout.trim().split("\n").at(-1) ?? "") as Said;
}

const isLeftOut = !existsSync(PYTHON) && process.env["WHETSTONE_PYTHON_AGENTS"] !== "required";

describe.skipIf(isLeftOut)("agents in Python", () => {
  let room: Room;
  beforeAll(async () => {
    room = await openRoom();
  });
  afterAll(() => room[Symbol.asyncDispose]());

  it.each(BOTH)("%s, streamed: %s", { timeout: LIMIT_MS }, async (name, stream) => {
    let seen: unknown[] = [];
    const { text, trained, sampled, parents } = await room.play(async (endpoint) => {
      const said = await play(name, stream, endpoint);
      seen = said.seen;
      return said.text;
    }, SAY[name]);
    expect(text).toBe(ANSWER);
    expect(seen).toEqual(Array.from({ length: TURNS }, (_, n) => ({ place: `drawer <${n}> é`, n })));
    expect(parents).toEqual(REWRITES.has(name) ? ONE_CHAIN.map(() => "") : ONE_CHAIN);
    expect(trained).toEqual(sampled);
  });
});
