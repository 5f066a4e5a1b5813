// SPDX-License-Identifier: Apache-2.0
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { json } from "node:stream/consumers";
import { EpisodeError, type StepResult } from "@whetstone/sdk";
import { afterEach, expect, it } from "vitest";
import { nemoGymEnvironment, type NemoGymOptions } from "./index.ts";

interface Verify {
  readonly response: { readonly output: readonly Record<string, unknown>[] };
  readonly wanted: number;
}
type Verdict = (body: Verify, count: number) => unknown;

let server: Server | undefined;
let cookies: (string | undefined)[];
afterEach(() => server?.close());

/** As NeMo Gym's example of a counter: seed_session gives a cookie, add and read count, verify compares. */
async function serve(verdict: Verdict): Promise<string> {
  const counts = new Map<string, number>();
  cookies = [];
  server = createServer((request, response) => {
    void (async () => {
      const body = (await json(request)) as Record<string, unknown>;
      const session = /session=(\w+)/u.exec(request.headers.cookie ?? "")?.[1] ?? `s${counts.size}`;
      cookies.push(request.headers.cookie);
      const answer = (status: number, value: unknown): void =>
        void response
          .writeHead(status, { "set-cookie": `session=${session}; Path=/; HttpOnly` })
          .end(JSON.stringify(value));
      if (request.url === "/seed_session") {
        counts.set(session, Number(body["start"]));
        return answer(200, {});
      }
      const count = counts.get(session) ?? Number.NaN;
      if (request.url === "/add") {
        if (body["count"] === 13) return answer(422, { detail: "no thirteen" });
        if (body["count"] === 500) return answer(500, "odd");
        counts.set(session, count + Number(body["count"]));
        return answer(200, { success: true });
      }
      if (request.url === "/verify") return answer(200, verdict(body as unknown as Verify, count));
      return answer(404, { detail: "Not Found" });
    })();
  });
  await new Promise<void>((resolve) => server?.listen(0, "127.0.0.1", resolve));
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

const integer = { type: "object", properties: { count: { type: "integer" } }, required: ["count"] };
const tools = ["add", "gone"].map((name) => ({ type: "function" as const, name, parameters: integer }));
const params = {
  input: [
    { role: "system", content: "Count." },
    { role: "user", content: "Reach 5." },
  ],
  tools,
};
const LIMITS = { headers: {}, callTimeoutMs: 300, maxMessageBytes: 10_000, maxSteps: 5, maxOutputCharacters: 1000 };
const reached: Verdict = ({ wanted }, count) => ({ reward: Number(count === wanted) });
const call = (name: string, count: number) => [{ id: "c", name, argumentsJson: JSON.stringify({ count }) }];

async function play(
  verdict: Verdict,
  actions: readonly unknown[],
  more: Partial<NemoGymOptions> = {},
): Promise<StepResult[]> {
  const row = { responses_create_params: params, start: 2, wanted: 5 };
  const environment = nemoGymEnvironment({ url: await serve(verdict), ...LIMITS, params, row, ...more });
  expect(await environment.reset()).toMatchObject({ observation: { question: "Count.\n\nReach 5." } });
  const results: StepResult[] = [];
  for (const action of actions) results.push(await environment.step(action, {}));
  await environment.close();
  return results;
}

async function failure(verdict: Verdict, actions: readonly unknown[], more: Partial<NemoGymOptions> = {}) {
  const error: unknown = await play(verdict, actions, more).catch((thrown: unknown) => thrown);
  return error instanceof EpisodeError ? [error.failureClass, error.message] : ["none", String(error)];
}

it("seeds, calls and verifies in one session, with the whole response", async () => {
  let verified: Verify | undefined;
  const results = await play(
    (body, count) => {
      verified = body;
      return reached(body, count);
    },
    [call("add", 1), call("add", 2), "done"],
  );
  expect(results.at(-1)).toMatchObject({ reward: 1, terminated: true, info: { success: true, toolCalls: 2 } });
  expect(cookies).toEqual([undefined, ...Array.from({ length: 3 }, () => "session=s0")]);
  expect(verified?.response.output).toMatchObject([
    { type: "function_call", name: "add", arguments: '{"count":1}' },
    { type: "function_call_output", output: '{"success":true}' },
    { type: "function_call", name: "add", arguments: '{"count":2}' },
    { type: "function_call_output" },
    { type: "message", role: "assistant", content: [{ type: "output_text", text: "done" }] },
  ]);
});

it("hands back what the server refuses, and pays nothing for a wrong count", async () => {
  const results = await play(reached, [call("add", 13), "done"]);
  expect(results[0]?.observation).toMatchObject({
    toolOutputs: [{ output: expect.stringContaining("no thirteen") as string }],
  });
  expect(results[1]).toMatchObject({ reward: 0, info: { success: false, toolErrors: 1 } });
});

it.each([
  ["a tool that fails", reached, [call("add", 500)], "ENVIRONMENT", /\/add: it answered 500/],
  ["a tool that it does not have", reached, [call("gone", 1)], "ENVIRONMENT", /does not have/],
  ["a verdict without a reward", () => ({}), ["done"], "GRADER", /without a reward/],
  ["a reward that is no number", () => ({ reward: "1" }), ["done"], "GRADER", /without a reward/],
  [
    "a verdict that is too long",
    () => ({ reward: 1, more: "x".repeat(20_000) }),
    ["done"],
    "GRADER",
    /more than 10000/,
  ],
  [
    "a sample that measures nothing",
    () => ({ reward: 0, mask_sample: true, failure_reason: "judge away" }),
    ["done"],
    "ENVIRONMENT",
    /measures nothing: judge away/,
  ],
] as const)("is the server's failure: %s", async (...[, verdict, actions, failureClass, words]) => {
  expect(await failure(verdict, actions)).toEqual([failureClass, expect.stringMatching(words)]);
});

it("is the server's failure when it is away", async () => {
  const [failureClass, message] = await failure(reached, [], { url: "http://127.0.0.1:9" });
  expect([failureClass, message]).toEqual(["ENVIRONMENT", expect.stringContaining("seed_session")]);
});
