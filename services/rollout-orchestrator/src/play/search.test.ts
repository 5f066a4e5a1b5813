// SPDX-License-Identifier: Apache-2.0
// Searches over a corpus and by a retrieval server, by scripted policies through the real env-runner.
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { create, type JsonObject } from "@bufbuild/protobuf";
import { RolloutTaskSchema } from "@whetstone/proto/events/v1/events";
import { FailureClass } from "@whetstone/proto/types/v1/types";
import { createRegistry, type RegisteredActor } from "@whetstone/sdk";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { type EnvRunnerProcess, startEnvRunner } from "../../test-support/env-runner-process.ts";
import { startFakeGateway } from "../../test-support/fake-gateway.ts";
import { builtInActors } from "../agents/built-in.ts";
import { RunnerClients } from "../environments/runner-clients.ts";
import { fixedRunner } from "../environments/runners.ts";
import { playTask } from "./play-task.ts";
import { ExternalModels } from "./external-models.ts";
import { Gateway } from "./gateway.ts";

const CORPUS = [
  { id: "1", title: "Quandle", text: "Quandle was founded by Ibrex Vaan." },
  { id: "2", title: "Ibrex Vaan", text: "Ibrex Vaan was born in Tolmery." },
  { id: "3", title: "Sorvald", text: "Sorvald is a river. It is cold." },
];
const QUESTION = "Where was the founder of Quandle born?";

/** Follows the founder to the birthplace, by what it reads; one that does not search says the founder's company. */
function turnOf(texts: readonly string[], grammar: "tools" | "tags"): string {
  const read = texts.slice(1).join("\n");
  const birthplace = /born in (\w+)/u.exec(read)?.[1];
  const query = /founded by (\w+ \w+)/u.exec(read)?.[1] ?? "Quandle founder";
  if (grammar === "tags")
    return birthplace === undefined
      ? `<think>not yet</think><search>${query}</search>`
      : `<think>yes</think><answer> the ${birthplace}. </answer>`;
  return birthplace === undefined
    ? `<tool_call>${JSON.stringify({ name: "search", arguments: { query } })}</tool_call>`
    : `<answer>${birthplace}</answer>`;
}

describe("an agent that searches", { timeout: 60_000 }, () => {
  let folder: string;
  let runner: EnvRunnerProcess;
  beforeAll(async () => {
    folder = mkdtempSync(join(tmpdir(), "whetstone-search-test-"));
    writeFileSync(join(folder, "corpus.jsonl"), CORPUS.map((one) => `${JSON.stringify(one)}\n`).join(""));
    runner = await startEnvRunner({ env: { WHETSTONE_SEARCH_INDEX_PATH: join(folder, "indexes") } });
  });
  afterAll(async () => {
    await runner[Symbol.asyncDispose]();
    rmSync(folder, { recursive: true, force: true });
  });

  async function play(args: JsonObject, policy: (texts: readonly string[]) => string) {
    await using fake = await startFakeGateway(({ body: { messages } }) => ({
      text: policy(messages.filter(({ role }) => role !== "assistant").map(({ content }) => String(content))),
    }));
    await using gateway = new Gateway(fake.url, 4);
    await using environments = new RunnerClients();
    const task = create(RolloutTaskSchema, {
      episodeId: "job/g0/s0",
      job: "job",
      task: { id: "t", payload: { question: QUESTION, answer: ["Tolmery"] } },
      seed: 1n,
      agent: { kind: "search" },
      environment: { kind: "search", args: { results: 1, ...args } },
      limits: { retryLimit: 0, maxPromptTokens: 8192 },
    });
    const actors = createRegistry<RegisteredActor>("agent", builtInActors());
    const deps = { actors, environments, gateway, externals: new ExternalModels({}) };
    const delivery = { task, attempt: 1, waitingMs: 0, runners: fixedRunner(runner.address) };
    return await playTask(deps, delivery, new AbortController().signal);
  }

  it.each(["tools", "tags"] as const)(
    "finds the answer in two hops, by %s; who does not search is not paid",
    async (grammar) => {
      const args = { corpus: join(folder, "corpus.jsonl"), grammar };
      const found = await play(args, (texts) => turnOf(texts, grammar));
      expect([found.reward, found.failure?.message, found.trajectories[0]?.steps.length]).toEqual([1, "", 3]);
      expect(found.trajectories[0]?.steps.at(-1)?.info).toMatchObject({ wellFormed: true, retrieved: true });
      const guessed = await play({ ...args, format: { final: 0.1 } }, () => "<answer>Quandle</answer>");
      expect([guessed.reward, guessed.failure?.message]).toEqual([0.1, ""]);
    },
  );

  it.each([
    [{}, "corpus"],
    [{ corpus: "/nowhere.jsonl" }, "corpus"],
    [{ url: "http://127.0.0.1:1/retrieve", corpus: "/nowhere.jsonl" }, "corpus"],
    [{ corpus: "/dev/null", headers: { a: "b" } }, "headers"],
    [{ corpus: "/dev/null", format: { structure: 0.6, retrieval: 0.6 } }, "format"],
  ])("refuses %j by path", async (args, path) => {
    const { failure } = await play(args, () => "");
    expect([failure?.failureClass, failure?.message]).toEqual([FailureClass.TASK, expect.stringContaining(path)]);
  });

  it("names the line of a broken corpus: the task is broken, not the policy wrong", async () => {
    const corpus = join(folder, "broken.jsonl");
    writeFileSync(corpus, '{"id": "1", "text": "fine"}\n{"id": "2"}\n');
    const { failure } = await play({ corpus, grammar: "tags" }, (texts) => turnOf(texts, "tags"));
    expect([failure?.failureClass, failure?.message]).toEqual([FailureClass.TASK, expect.stringContaining("line 2")]);
  });

  describe("with a retrieval server", () => {
    const passages = CORPUS.map(({ title, text }) => ({ document: { contents: `"${title}"\n${text}` }, score: 1.5 }));
    const bodies: Record<string, (query: string) => string | undefined> = {
      right: (query) =>
        JSON.stringify({
          result: [
            passages.filter(({ document }) => document.contents.includes(query.split(" ")[0] as string)).slice(-1),
          ],
        }),
      nonsense: () => '{"result": 7}',
      text: () => "<html>",
      endless: () => `"${"x".repeat(5 * 2 ** 20)}"`,
      slow: () => undefined,
    };
    let url: string;
    const server = createServer((request, response) => {
      let body = "";
      request.on("data", (chunk: Buffer) => (body += chunk.toString()));
      request.on("end", () => {
        const {
          queries,
          topk,
          return_scores: scores,
        } = JSON.parse(body) as { queries: string[]; topk: number; return_scores: boolean };
        const answer = bodies[request.url?.slice(1) ?? ""];
        if (answer === undefined || topk !== 1 || !scores) return void response.writeHead(500).end("no such thing");
        const text = answer(queries[0] as string);
        if (text !== undefined) response.end(text);
      });
    });
    beforeAll(async () => {
      await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
      url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
    });
    afterAll(async () => {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    });

    it.each(["tools", "tags"] as const)("finds the answer by its passages, by %s", async (grammar) => {
      const found = await play({ url: `${url}/right`, grammar }, (texts) => turnOf(texts, grammar));
      expect([found.failure?.message, found.reward]).toEqual(["", 1]);
    });

    it.each([
      ["nonsense", /its answer is not \{result/u],
      ["text", /not JSON/u],
      ["endless", /more than 4194304 bytes/u],
      ["slow", /no answer within 300 ms/u],
      ["unknown", /it answered 500: no such thing/u],
    ])("one that is %s is the environment's failure, never a reward", async (name, message) => {
      for (const grammar of ["tools", "tags"] as const) {
        const { failure, reward } = await play(
          { url: `${url}/${name}`, grammar, searchTimeoutMs: name === "slow" ? 300 : 5_000 },
          (texts) => turnOf(texts, grammar),
        );
        expect([failure?.failureClass, reward]).toEqual([FailureClass.ENVIRONMENT, 0]);
        expect(failure?.message).toMatch(message);
      }
    });

    it("one that is dead is, too", async () => {
      const { failure } = await play({ url: "http://127.0.0.1:1/retrieve" }, (texts) => turnOf(texts, "tools"));
      expect(failure?.failureClass).toBe(FailureClass.ENVIRONMENT);
    });
  });
});
