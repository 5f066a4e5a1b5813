// SPDX-License-Identifier: Apache-2.0
import { once } from "node:events";
import { BaseEnv, EpisodeError, type ResetOptions, type ResetResult, type StepResult } from "@whetstone/sdk";
import { afterEach, beforeEach, expect, it } from "vitest";
import { WebSocket } from "ws";
import { OpenEnvEnvironment, type OpenEnvServer, startOpenEnvServer } from "./index.ts";

let closed: number;
let server: OpenEnvServer;

/** Adds up what it is told. */
class Sum extends BaseEnv {
  #sum = 0;

  reset({ seed }: ResetOptions): ResetResult {
    this.#sum = seed;
    return { observation: `from ${seed}`, info: {} };
  }

  step(action: unknown): StepResult {
    if (action === "throw") throw new Error("odd");
    if (action === "task") throw new EpisodeError("TASK", "no such task");
    this.#sum += Number(action);
    const terminated = this.#sum > 9;
    return { observation: { sum: this.#sum }, reward: this.#sum, terminated, truncated: false, info: {} };
  }

  override close(): void {
    closed += 1;
  }
}

beforeEach(async () => {
  closed = 0;
  const options = { host: "127.0.0.1", port: 0, name: "sum", description: "Adds up.", sessions: 2 };
  server = await startOpenEnvServer({ ...options, open: () => new Sum() });
});
afterEach(() => server[Symbol.asyncDispose]());

/** Says these, one after the other. */
async function talk(...messages: readonly (object | string)[]): Promise<unknown[]> {
  const socket = new WebSocket(`${server.url}/ws`);
  await once(socket, "open");
  const answers: unknown[] = [];
  for (const message of messages) {
    socket.send(typeof message === "string" ? message : JSON.stringify(message));
    const [answer] = (await once(socket, "message")) as [Buffer];
    answers.push(JSON.parse(answer.toString("utf8")));
  }
  socket.terminate();
  return answers;
}

const error = (code: string): object => ({ type: "error", data: { code } });

it("is played by the client, one episode after the other, and closes each", async () => {
  const environment = new OpenEnvEnvironment({ url: server.url });
  expect(await environment.reset({ seed: 3 })).toMatchObject({ observation: { text: "from 3" } });
  expect(await environment.step("4", {})).toMatchObject({
    observation: { data: { sum: 7 } },
    reward: 7,
    terminated: false,
  });
  expect(await environment.step("4", {})).toMatchObject({ reward: 11, terminated: true });
  await environment.close();
  await expect.poll(() => [closed, server.openSessions]).toEqual([1, 0]);
});

it("answers what is wrong with the protocol's codes, and goes on", async () => {
  const reset = { type: "reset", data: { seed: 1, episode_id: "e" } };
  const step = (action: unknown): object => ({ type: "step", data: { action } });
  const answers = await talk(
    ...["{", { type: "dance" }, step("1"), reset, { type: "step", data: { move: 1 } }],
    ...[step("throw"), step("task"), step("1"), { type: "state" }, step("9"), step("1"), reset],
  );
  expect(answers).toMatchObject([
    ...["INVALID_JSON", "UNKNOWN_TYPE", "SESSION_ERROR"].map(error),
    { type: "observation", data: { observation: { text: "from 1" }, reward: null, done: false } },
    ...["VALIDATION_ERROR", "EXECUTION_ERROR", "VALIDATION_ERROR"].map(error),
    { data: { reward: 2, done: false } },
    { type: "state", data: { episode_id: "e", step_count: 1 } },
    { data: { reward: 11, done: true } },
    error("SESSION_ERROR"),
    { data: { observation: { text: "from 1" } } },
  ]);
  await expect.poll(() => [closed, server.openSessions]).toEqual([2, 0]);
});

it("has no room for more than it says, and has it again when somebody leaves", async () => {
  const [first, second] = [new OpenEnvEnvironment({ url: server.url }), new OpenEnvEnvironment({ url: server.url })];
  await Promise.all([first.reset({ seed: 1 }), second.reset({ seed: 1 })]);
  const third = new OpenEnvEnvironment({ url: server.url });
  const waiting = third.reset({ seed: 1 });
  first.abandon();
  await waiting;
  await Promise.all([second.close(), third.close()]);
});

it("describes itself, and refuses pages of others", async () => {
  const schema = (await (await fetch(`${server.url}/schema`)).json()) as { action: object };
  expect(schema.action).toMatchObject({ required: ["action"] });
  expect((await fetch(`${server.url}/reset`, { method: "POST" })).status).toBe(404);
  const [refused] = await once(new WebSocket(`${server.url}/ws`, { origin: "http://evil.example" }), "error");
  expect(String(refused)).toMatch(/401/);
});
