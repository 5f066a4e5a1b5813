// SPDX-License-Identifier: Apache-2.0
import type { WhetstoneError } from "@whetstone/core";
import { parseOrThrow, raceSignal, sleep } from "@whetstone/core";
import { z } from "zod";
import { createChatPool } from "../chat/chat-client.ts";
import { exchange, type HttpAnswer, type HttpRequest } from "../chat/http-exchange.ts";
import { EpisodeError } from "../failure.ts";
import { defineRollout, type RegisteredRollout } from "../define.ts";
import { CallbackServer, type CallbackServerOptions } from "./callback-server.ts";
import type { RolloutInput, RolloutResult } from "./rollout.ts";

const HttpArgs = z.strictObject({
  url: z.url({ protocol: /^https?$/ }).describe("Gets the task by POST"),
  headers: z.record(z.string(), z.string()).default({}).describe("Sent with it"),
});

type Args = z.output<typeof HttpArgs>;

/** The built-in kind "http". What the agent gets and gives: docs/agents.md. */
export function httpAgent(options: CallbackServerOptions = {}): RegisteredRollout {
  const callbacks = new CallbackServer(options);
  return defineRollout<Args>({
    kind: "http",
    description:
      "An agent behind a URL: it gets the task by POST and answers with the result, at once or by a callback.",
    parseArgs: (args) => parseOrThrow(HttpArgs, args, ""),
    argsSchema: z.toJSONSchema(HttpArgs, { io: "input" }),
    run: (input) => play(callbacks, input),
  });
}

async function play(callbacks: CallbackServer, input: RolloutInput<Args>): Promise<RolloutResult> {
  using callback = await callbacks.open();
  const answer = await post(input, callback.url);
  if (answer.status === ACCEPTED) return (await raceSignal(callback.answered, input.signal)) as RolloutResult;
  if (answer.status === 200) return parse(answer.body);
  throw refusal(answer);
}

const ACCEPTED = 202;
const ATTEMPTS = 4;
const PAUSE_MS = 250;

/**
 * Asks again only where the agent cannot have begun: nobody listened, or it said that it is busy (429, 503). When the
 * connection breaks later, the try has failed: the next one has a session of its own.
 */
async function post(input: RolloutInput<Args>, callback: string): Promise<HttpAnswer> {
  const { args, signal, publicBaseUrl, ...run } = input;
  const url = new URL(args.url);
  const pool = createChatPool(url.origin, 1);
  const headers = { "content-type": "application/json", "idempotency-key": `${run.episodeId}.${run.try}` };
  const body = JSON.stringify({ ...run, baseUrl: publicBaseUrl ?? run.baseUrl, callback });
  const path = `${url.pathname}${url.search}`;
  const request: HttpRequest = { method: "POST", path, headers: { ...headers, ...args.headers }, body, signal };
  try {
    for (let attempt = 1; ; attempt += 1) {
      const answer = await exchange(pool, request).catch((error: unknown) => neverBegan(error));
      const busy = answer === undefined || answer.status === 429 || answer.status === 503;
      if (answer !== undefined && !(busy && attempt < ATTEMPTS)) return answer;
      if (attempt >= ATTEMPTS) throw new EpisodeError("INFRASTRUCTURE", `no agent listens at ${url.origin}`);
      await sleep(PAUSE_MS * 2 ** (attempt - 1), signal);
    }
  } finally {
    await pool.destroy();
  }
}

/** @throws what cannot be tried again safely. */
function neverBegan(error: unknown): undefined {
  for (let link: unknown = error; link instanceof Error; link = link.cause) {
    if ((link as NodeJS.ErrnoException).code === "ECONNREFUSED") return undefined;
  }
  throw error;
}

function parse(body: Buffer): RolloutResult {
  try {
    return JSON.parse(body.toString("utf8")) as RolloutResult;
  } catch (error) {
    throw new EpisodeError("TASK", `the agent's answer is no JSON: ${body.toString("utf8", 0, 200)}`, { cause: error });
  }
}

function refusal({ status, body }: HttpAnswer): WhetstoneError {
  const failureClass = status === 408 || status === 429 || status >= 500 ? "INFRASTRUCTURE" : "TASK";
  return new EpisodeError(failureClass, `the agent answered ${status}: ${body.toString("utf8", 0, 500)}`);
}
