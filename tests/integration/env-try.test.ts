// SPDX-License-Identifier: Apache-2.0
// `whet envs try`: an episode at an env-runner without an agent, an engine or a job.
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { createServer, type IncomingHttpHeaders } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Readable } from "node:stream";
import { json, text } from "node:stream/consumers";
import { silentLogger } from "@whetstone/telemetry";
import { canHaveSandboxes } from "@whetstone/testkit";
import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { runCommand } from "../../services/cli/src/run-command.ts";
import { type FakeTerminal, fakeTerminal } from "../../services/cli/test-support/fake-terminal.ts";
import { type EnvRunnerApp, startApp } from "../../services/env-runner/src/app.ts";
import { ConfigSchema } from "../../services/env-runner/src/config.ts";
import { WHET } from "../support/whet.ts";

let runner: EnvRunnerApp;
let folder: string;
let terminal: FakeTerminal;
beforeAll(async () => {
  runner = await startApp(ConfigSchema.parse({ grpcPort: 0 }), { logger: silentLogger });
  folder = mkdtempSync(join(tmpdir(), "whetstone-try-"));
});
afterAll(async () => {
  await runner[Symbol.asyncDispose]();
  rmSync(folder, { recursive: true, force: true });
});
beforeEach(() => void (terminal = fakeTerminal()));

function attempt(kind: string, ...argv: string[]): Promise<number> {
  const { signal } = new AbortController();
  const environment = { WHETSTONE_DATA: folder, WHETSTONE_API_KEY: "secret" };
  return runCommand(["envs", "try", kind, ...argv], { terminal, environment, signal, force: signal });
}

function file(name: string, ...lines: string[]): string {
  writeFileSync(join(folder, name), lines.map((line) => `${line}\n`).join(""));
  return join(folder, name);
}

interface Tried {
  readonly over: boolean;
  readonly turns: { readonly action?: unknown; readonly observation: Record<string, unknown> }[];
}

describe("whet envs try", () => {
  const at = (): readonly string[] => ["--runner", runner.address];

  it("plays a file of actions to the end of the episode, and shows what is seen and paid", async () => {
    const actions = file("right.txt", ...Array.from({ length: 40 }, () => "Right"));
    const args = ["--args", '{"size": 4}', "--seed", "7", "--actions", actions];
    expect(await attempt("frozenlake", ...at(), ...args)).toBe(0);
    const said = terminal.out.join("\n");
    expect(said).toMatch(/^> Right$/m);
    expect(said).toMatch(/^reward 0$/m);
    expect(said).toMatch(/^the environment's own limit ended the episode|^the episode is over/m);
  });

  it("takes a task's arguments, and lines of JSON that hold line breaks", async () => {
    const tasks = file(
      "tasks.jsonl",
      ...[3, 5].map((n) => JSON.stringify({ payload: { question: `${n}+1`, answer: n + 1 } })),
    );
    const actions = file("answer.txt", JSON.stringify("It is\n\\boxed{6}"));
    const args = ["--dataset", tasks, "--task", "1", "--actions", actions, "--json"];
    expect(await attempt("math", ...at(), ...args)).toBe(0);
    const { over, turns } = terminal.documents.at(-1) as Tried;
    expect(over).toBe(true);
    expect(turns.map(({ action }) => action)).toEqual([undefined, "It is\n\\boxed{6}"]);
    expect(turns.at(-1)?.observation).toMatchObject({ reward: 1, terminated: true });
  });

  it.runIf(canHaveSandboxes)("shows the tests' words where a program is judged", async () => {
    const payload = { question: "Double it.", tests: { kind: "stdin", cases: [{ input: "2", output: "4" }] } };
    const tasks = file("programs.jsonl", JSON.stringify({ payload }));
    const actions = file("program.txt", JSON.stringify("```python\nprint(2 * int(input()))\n```"));
    expect(await attempt("code", ...at(), "--dataset", tasks, "--actions", actions, "--json")).toBe(0);
    expect((terminal.documents.at(-1) as Tried).turns.at(-1)?.observation).toMatchObject({ reward: 1 });
  });

  it("reads what a person types, until the input ends", async () => {
    const argv = [WHET, "envs", "try", "frozenlake", ...at(), "--args", '{"size": 4}'];
    const child = spawn(process.execPath, argv, { stdio: ["pipe", "pipe", "inherit"], timeout: 30_000 });
    child.stdin.end("Right\nDown\n");
    const said = await text(child.stdout);
    expect(said.match(/^reward 0$/gmu)).toHaveLength(2);
    expect(said).toMatch(/the episode was left before its end\n$/u);
  });

  it("lets a model of any server play, which sees the whole conversation", async () => {
    const asked: { headers: IncomingHttpHeaders; messages: { role: string; content: string }[] }[] = [];
    const server = createServer((request, response) => {
      void json(request.method === "GET" ? Readable.from(["{}"]) : request).then((body) => {
        const { messages = [] } = body as { messages?: { role: string; content: string }[] };
        if (request.method === "POST") asked.push({ headers: request.headers, messages });
        const choices = [{ index: 0, message: { role: "assistant", content: "Right" }, finish_reason: "stop" }];
        const usage = { prompt_tokens: 1, completion_tokens: 1, total_tokens: 2 };
        response.setHeader("content-type", "application/json");
        response.end(JSON.stringify(request.method === "GET" ? { data: [{ id: "m" }] } : { id: "c", choices, usage }));
      });
    }).listen(0, "127.0.0.1");
    await once(server, "listening");
    const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/v1`;
    const model = ["--server", url, "--system", "One word."];
    expect(await attempt("frozenlake", ...at(), "--args", '{"size": 4, "maxSteps": 2}', "--seed", "7", ...model)).toBe(
      0,
    );
    server.close();
    expect(asked.map(({ messages }) => messages.map(({ role }) => role).join(" "))).toEqual([
      "system user",
      "system user assistant user",
    ]);
    expect(asked[0]?.headers.authorization).toBe("Bearer secret");
    expect(terminal.out.join("\n")).toMatch(/^> Right$/mu);
  });

  it("says that the episode was left when the actions end before it", async () => {
    const actions = file("one.txt", "Right");
    const args = ["--args", '{"size": 4}', "--actions", actions];
    expect(await attempt("frozenlake", ...at(), ...args)).toBe(0);
    expect(terminal.out.at(-1)).toBe("the episode was left before its end");
  });

  it("names what is wrong, and what to do", async () => {
    for (const [argv, said] of [
      [["chess", ...at()], /unknown environment "chess"; known: .*frozenlake/],
      [["frozenlake", ...at(), "--args", '{"size": 99}'], /size/],
      [["frozenlake", ...at(), "--args", "[1]"], /--args: must be a JSON object/],
      [["frozenlake", ...at(), "--seed", "x"], /--seed: must be a number/],
      [["frozenlake", ...at(), "--actions", join(folder, "none")], /--actions: .*no such file/],
      [["frozenlake", ...at(), "--actions", "a", "--server", "x"], /--server: cannot be given beside --actions/],
      [["frozenlake", ...at(), "--system", "x"], /--server: is needed for --model and --system/],
      [["frozenlake", ...at(), "--server", "http://127.0.0.1:9/v1"], /--server: http:..127.0.0.1:9 does not answer/],
      [["frozenlake", ...at(), "--task", "1"], /--task: needs --dataset/],
      [
        ["math", ...at(), "--dataset", file("no.jsonl", '{"payload": {}}'), "--task", "3"],
        /has 1 tasks?.*there is no 3/,
      ],
    ] as const) {
      expect([argv, await attempt(...(argv as [string]))]).toEqual([argv, 2]);
      expect(terminal.err.at(-1)).toMatch(said);
    }
    expect(await attempt("frozenlake")).toBe(1);
    expect(terminal.err.at(-1)).toMatch(/no runtime is running here.*`whet up`.*--runner/);
  });
});
