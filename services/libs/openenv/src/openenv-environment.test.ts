// SPDX-License-Identifier: Apache-2.0
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { EpisodeError } from "@whetstone/sdk";
import { afterEach, expect, it } from "vitest";
import { type WebSocket, WebSocketServer } from "ws";
import { OpenEnvEnvironment, type OpenEnvOptions } from "./index.ts";

type Said = (message: { type: string; data: Record<string, unknown> }, socket: WebSocket) => void;

const FIELDS = { guess: { type: "integer" }, metadata: { type: "object" } };
const observation = (data: object): string =>
  JSON.stringify({ type: "observation", data: { observation: { said: "lower" }, reward: 0, done: false, ...data } });
const failure = (code: string, more: object = {}): string =>
  JSON.stringify({ type: "error", data: { message: "odd", code, ...more } });

let server: Server | undefined;
const connected = new Set<WebSocket>();
afterEach(() => {
  for (const socket of connected) socket.terminate();
  server?.close();
});

interface Served {
  readonly properties?: object;
  readonly onConnect?: (socket: WebSocket) => void;
}

/** A server that answers resets as it should and steps as the test says. */
async function serve(step: Said, { properties = FIELDS, onConnect = () => {} }: Served = {}) {
  const schema = { action: { properties, required: [] }, observation: {}, state: {} };
  const http = createServer((_, response) => response.end(JSON.stringify(schema)));
  server = http;
  new WebSocketServer({ server: http, path: "/ws" }).on("connection", (socket) => {
    connected.add(socket.on("close", () => connected.delete(socket)));
    onConnect(socket);
    socket.on("message", (raw: Buffer) => {
      const message = JSON.parse(raw.toString()) as Parameters<Said>[0];
      if (message.type === "reset") socket.send(observation({ reward: null }));
      if (message.type === "step") step(message, socket);
    });
  });
  await new Promise<void>((resolve) => http.listen(0, "127.0.0.1", resolve));
  return `http://127.0.0.1:${(http.address() as AddressInfo).port}`;
}

async function stepAt(step: Said, action: unknown = "5", options: Partial<OpenEnvOptions> = {}) {
  const environment = new OpenEnvEnvironment({ url: await serve(step), callTimeoutMs: 300, ...options });
  try {
    await environment.reset({ seed: 1 });
    return await environment.step(action, {});
  } finally {
    await environment.close();
  }
}

const classOf = async (work: Promise<unknown>): Promise<[string, string]> => {
  const error: unknown = await work.then(
    () => "no error",
    (thrown: unknown) => thrown,
  );
  return error instanceof EpisodeError ? [error.failureClass, error.message] : ["none", String(error)];
};

it("says what the server says, and ends with it", async () => {
  const steps: unknown[] = [];
  const result = await stepAt(({ data }, socket) => {
    steps.push(data);
    socket.send(observation({ reward: true, done: true }));
  });
  expect(steps).toEqual([{ guess: 5 }]);
  expect(result).toEqual({ observation: "lower", reward: 1, terminated: true, truncated: false, info: {} });
  expect(connected.size).toBe(0);
});

it("hands an action that does not fit back to the policy, with the server's reason", async () => {
  const errors = [{ loc: ["guess"], msg: "must be whole" }];
  const result = await stepAt((_, socket) => socket.send(failure("VALIDATION_ERROR", { errors })), "five");
  expect(result).toMatchObject({ observation: "Error: odd; guess: must be whole", reward: 0, info: { invalid: true } });
});

const lies: [string, Said, string, RegExp][] = [
  ["raises", (_, s) => s.send(failure("EXECUTION_ERROR")), "ENVIRONMENT", /step: EXECUTION_ERROR: odd/],
  ["dies", (_, s) => s.terminate(), "ENVIRONMENT", /closed the connection/],
  ["hangs", () => {}, "ENVIRONMENT", /deadline of 300 ms/],
  ["is no JSON", (_, s) => s.send("<html>"), "ENVIRONMENT", /is not JSON: <html>/],
  ["is of no type", (_, s) => s.send('{"type":"state"}'), "ENVIRONMENT", /none of the protocol/],
  ["has a reward of text", (_, s) => s.send(observation({ reward: "1" })), "ENVIRONMENT", /data\.reward/],
  ["has no observation", (_, s) => s.send('{"type":"observation","data":{"reward":1}}'), "ENVIRONMENT", /observation/],
  ["is too long", (_, s) => s.send("x".repeat(20_000)), "ENVIRONMENT", /payload/i],
  ["ends without a reward", (_, s) => s.send(observation({ reward: null, done: true })), "GRADER", /without a reward/],
];
it.each(lies)("is the server's failure, never a reward, when its answer %s", async (_, step, failureClass, words) => {
  const [found, message] = await classOf(stepAt(step, "5", { maxMessageBytes: 10_000 }));
  expect(found).toBe(failureClass);
  expect(message).toMatch(words);
});

it("does not take a message for an answer that was sent before it was asked", async () => {
  const environment = new OpenEnvEnvironment({
    url: await serve((_, socket) => {
      socket.send(observation({ reward: 0 }));
      socket.send(observation({ reward: 1 }));
    }),
  });
  await environment.reset({ seed: 1 });
  await environment.step("1", {});
  await expect.poll(() => connected.size).toBe(0);
  expect(await classOf(Promise.resolve(environment.step("1", {})))).toEqual([
    "ENVIRONMENT",
    expect.stringContaining("answers nothing"),
  ]);
  await environment.close();
});

it("waits for a free session, and no longer than it may", async () => {
  let connections = 0;
  const onConnect = (socket: WebSocket): void => {
    connections += 1;
    if (connections < 3) socket.send(failure("CAPACITY_REACHED"));
  };
  const environment = new OpenEnvEnvironment({ url: await serve(() => {}, { onConnect }) });
  await environment.reset({ seed: 1 });
  expect(connections).toBe(3);
  await environment.close();
  connections = -1e9;
  const [found] = await classOf(
    new OpenEnvEnvironment({ url: `${await serve(() => {}, { onConnect })}`, startTimeoutMs: 300 }).reset({ seed: 1 }),
  );
  expect(found).toBe("ENVIRONMENT");
});

it("names the argument that does not fit the server", async () => {
  const url = await serve(() => {});
  const environment = new OpenEnvEnvironment({ url, observationField: "text" });
  await expect(environment.reset({ seed: 1 })).rejects.toThrow(/args\.observationField: .* has no "text"; it has said/);
  await environment.close();
});

it("wants an object where the schema has several fields", async () => {
  const url = await serve(({ data }, socket) => socket.send(observation({ observation: data })), {
    properties: { column: {}, row: {} },
  });
  const environment = new OpenEnvEnvironment({ url });
  await environment.reset({ seed: 1 });
  expect(await environment.step("2", {})).toMatchObject({
    observation: "Error: an action must be a JSON object with column, row",
  });
  expect(await environment.step('{"column": 1, "row": 2}', {})).toMatchObject({ observation: { column: 1, row: 2 } });
  await environment.close();
});
