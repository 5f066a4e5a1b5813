// SPDX-License-Identifier: Apache-2.0
/** Who plays a trial: a person or a file, line by line, or a model. */
import { readFile } from "node:fs/promises";
import { createInterface } from "node:readline/promises";

import { toJson } from "@bufbuild/protobuf";
import { ValueSchema } from "@bufbuild/protobuf/wkt";
import { type ChatMessage, ChatClient } from "@whetstone/sdk";
import type { Observation } from "@whetstone/proto/environments/v1/environments";

import { badInput } from "../cli-error.ts";
import type { Action, Player } from "./trial.ts";

export interface OpenPlayer extends AsyncDisposable {
  readonly play: Player;
}

/** A line is an action; a line of JSON (text in quotes, an array or an object) is what it says, so that it can hold line breaks. */
export function actionOf(line: string): Action {
  if (!/^\s*["[{]/u.test(line)) return line;
  try {
    return JSON.parse(line) as Action;
  } catch {
    return line;
  }
}

export async function scriptedPlayer(file: string): Promise<OpenPlayer> {
  const actions = await readActions(file);
  return { play: () => Promise.resolve(actions.shift()), [Symbol.asyncDispose]: async () => {} };
}

/** A line each. @throws CliError when the file cannot be read */
export async function readActions(file: string): Promise<Action[]> {
  const text = await readFile(file, "utf8").catch((error: unknown) => {
    throw badInput([{ path: "--actions", reason: (error as Error).message }]);
  });
  return text
    .split("\n")
    .filter((line) => line.trim() !== "")
    .map(actionOf);
}

/** Reads standard input; its end ends the episode. A terminal shows a prompt. */
export function humanPlayer(prompt: string, signal: AbortSignal): OpenPlayer {
  const isTty = process.stdin.isTTY === true;
  const reader = createInterface({ input: process.stdin, ...(isTty && { output: process.stdout, prompt }) });
  const lines = reader[Symbol.asyncIterator]();
  const stop = (): void => reader.close();
  signal.addEventListener("abort", stop);
  return {
    play: async () => {
      if (isTty) reader.prompt();
      const line = await lines.next();
      return line.done === true ? undefined : actionOf(line.value);
    },
    [Symbol.asyncDispose]: async () => {
      signal.removeEventListener("abort", stop);
      reader.close();
    },
  };
}

/** Of one answer. */
const MOST_TOKENS = 512;
const ANSWER_WITHIN_MS = 120_000;

export interface ModelPlayerOptions {
  /** Of a server with OpenAI's chat API, with or without "/v1": "http://127.0.0.1:8000/v1". */
  readonly server: string;
  /** Absent: the first that the server lists. */
  readonly model?: string | undefined;
  readonly apiKey?: string | undefined;
  readonly system?: string | undefined;
  readonly seed: number;
  readonly signal: AbortSignal;
}

/** What it sees is a message to the model, and the model's answer is the action: text for text. */
export async function modelPlayer({
  system,
  seed,
  signal,
  apiKey,
  ...options
}: ModelPlayerOptions): Promise<OpenPlayer> {
  const baseUrl = options.server.replace(/\/(v1\/?)?$/u, "");
  const model = options.model ?? (await firstModel(baseUrl, apiKey, signal));
  const client = new ChatClient({ baseUrl, model, apiKey });
  const messages: ChatMessage[] = system === undefined ? [] : [{ role: "system", content: system }];
  const asked = { maxTokens: MOST_TOKENS, remainingMs: ANSWER_WITHIN_MS, sampling: {}, seed, role: "trial" };
  return {
    play: async (observation) => {
      messages.push({ role: "user", content: textOf(observation) });
      const within = AbortSignal.any([signal, AbortSignal.timeout(ANSWER_WITHIN_MS)]);
      const { text } = await client.chat(messages, { ...asked, signal: within });
      messages.push({ role: "assistant", content: text });
      return text;
    },
    [Symbol.asyncDispose]: () => client.close(),
  };
}

/** @throws CliError when the server has none, or is not there */
async function firstModel(baseUrl: string, apiKey: string | undefined, signal: AbortSignal): Promise<string> {
  const headers = apiKey === undefined ? {} : { authorization: `Bearer ${apiKey}` };
  const within = AbortSignal.any([signal, AbortSignal.timeout(ANSWER_WITHIN_MS)]);
  const answer = await fetch(`${baseUrl}/v1/models`, { headers, signal: within }).catch((error: unknown) => {
    throw badInput([{ path: "--server", reason: `${baseUrl} does not answer: ${(error as Error).message}` }]);
  });
  const { data = [] } = (await answer.json().catch(() => ({}))) as { data?: { id: string }[] };
  if (data[0] !== undefined) return data[0].id;
  throw badInput([{ path: "--model", reason: `is needed: ${baseUrl}/v1/models lists none (status ${answer.status})` }]);
}

/** What a player sees: the observation's text, or its data where it has none. */
export function textOf({ text, data }: Observation): string {
  return text === "" && data !== undefined ? JSON.stringify(toJson(ValueSchema, data), undefined, 1) : text;
}
