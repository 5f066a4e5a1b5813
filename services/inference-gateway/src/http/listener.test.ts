// SPDX-License-Identifier: Apache-2.0
import { afterEach, beforeEach, expect, it } from "vitest";
import { wireError } from "../dialects/openai-error.ts";
import { createListener } from "./listener.ts";

const BOUNDS = { maxBodyBytes: 100, receiveTimeoutMs: 5_000, maxConnections: 10 };
const logged: string[] = [];
const server = createListener(BOUNDS, undefined, {
  logError: (event, error) => void logged.push(`${event}: ${(error as Error).message}`),
  formOf: () => wireError,
});
server.post("/", (request) => {
  if (request.body === "fail") throw new Error("our own fault");
  return "{}";
});

beforeEach(() => server.listen({ port: 0, host: "127.0.0.1" }));
afterEach(() => server.close());

it("answers what a client does wrong without a word in the log, and logs our own faults", async () => {
  const { port } = server.addresses()[0] as { port: number };
  const post = async (body: string, type = "application/json"): Promise<number> =>
    (await fetch(`http://127.0.0.1:${port}/`, { method: "POST", body, headers: { "content-type": type } })).status;
  expect(await post("x".repeat(101))).toBe(413);
  expect(await post("x", "no type")).toBe(415);
  expect((await fetch(`http://127.0.0.1:${port}/elsewhere`)).status).toBe(404);
  expect(logged).toEqual([]);
  expect(await post("fail")).toBe(500);
  expect(logged).toEqual(["request_failed: our own fault"]);
});
