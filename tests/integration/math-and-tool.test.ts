// SPDX-License-Identifier: Apache-2.0
// Agents and environments of the second kind, through the real services: a few SFT steps on demonstrations teach a random model
// the form of an answer and of a tool call; then the built-in kinds and the two examples train on sums and corpus questions.
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fromJson, type JsonObject } from "@bufbuild/protobuf";
import { JobPhase, JobService, JobSpecSchema } from "@whetstone/proto/jobs/v1/jobs";
import type { Episode } from "@whetstone/proto/types/v1/types";
import { createClient, type RpcClient } from "@whetstone/rpc";
import { calculator, Corpus, searchTool, type Tool } from "@whetstone/tools";
import { waitFor } from "@whetstone/testkit";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { type LocalRuntime, startLocalRuntime } from "../support/local-runtime.ts";

const HOMES = { Anna: "Oslo", Ben: "Rome", Cleo: "Lima", Dora: "Bern" };
const DOCUMENTS = Object.entries(HOMES).map(([name, home]) => ({ id: name, text: `${name} is in ${home}.` }));
const search = searchTool(new Corpus(DOCUMENTS));

type Message = { role: string; content: string };
const says = (role: string, content: string): Message => ({ role, content });

/** A question, a call, its real output, the answer. */
async function toolTalk(
  question: string,
  tool: Pick<Tool, "name" | "run">,
  args: JsonObject,
  answer: string,
): Promise<Message[]> {
  const call = `<tool_call>${JSON.stringify({ name: tool.name, arguments: args })}</tool_call>`;
  const output = String(await tool.run(args, { signal: AbortSignal.timeout(1000) }));
  return [says("user", question), says("assistant", call), says("tool", output), says("assistant", answer)];
}

function digits(i: number): [number, number] {
  return [i % 5, Math.floor(i / 5) % 5];
}

/** Answers of sums are right every other time: there is something left to learn. */
async function demonstration(i: number): Promise<Message[]> {
  const [a, b] = digits(i * 7);
  const [name, home] = Object.entries(HOMES)[i % 4] as [string, string];
  const price = { name: "price", run: () => [3, 2, 1, 4][i % 4] };
  const item = ["tea", "bread", "milk", "rice"][i % 4];
  switch (Math.floor(i / 4) % 4) {
    case 0:
      return [says("user", `${a}+${b}=`), says("assistant", String(i % 2 === 0 ? a + b : (i * 3) % 9))];
    case 1:
      return toolTalk(`calc ${a}+${b}`, calculator, { expression: `${a}+${b}` }, String(a + b));
    case 2:
      return toolTalk(`where is ${name}?`, search, { query: name }, home);
    default:
      return toolTalk(`price of ${item}?`, price, { item: String(item) }, String(price.run()));
  }
}

const lines = (tasks: unknown[]): string => tasks.map((task) => JSON.stringify(task)).join("\n");
const LIMITS = { maxSteps: 3, maxPromptTokens: 64, maxResponseTokens: 400, episodeTimeout: "60s" };
const GRPO = { policyGradient: { groupSize: 4, optimizer: { learningRate: 0.0005 } } };
const SOUND = { lost: 0, duplicated: 0, stale: 0, unlabelled: 0, inFlight: 0 };

describe("math and tool agents", () => {
  const folder = mkdtempSync(join(tmpdir(), "whetstone-tools-"));
  let runtime: LocalRuntime;
  let jobs: RpcClient<typeof JobService>;
  let taught: string;

  const file = (name: string, text: string): string => {
    writeFileSync(join(folder, name), text);
    return join(folder, name);
  };
  const train = async (name: string, job: JsonObject) => {
    await jobs.submitJob({ spec: fromJson(JobSpecSchema, { name, ...job }) });
    const get = async () => (await jobs.getJob({ name })).job?.status;
    const over = [JobPhase.SUCCEEDED, JobPhase.FAILED, JobPhase.CANCELLED];
    await waitFor(async () => over.includes((await get())?.phase ?? 0), { timeoutMs: 240_000 });
    const status = await get();
    expect(status?.phase, status?.message).toBe(JobPhase.SUCCEEDED);
    return status;
  };
  const audit = (name: string) => runtime.whet("jobs", "audit", name).json;
  const episodesOf = async (name: string, groups: number): Promise<Episode[]> => {
    const ids = Array.from({ length: groups * 4 }, (_, i) => `${name}/g${Math.floor(i / 4)}/s${i % 4}`);
    const found: Episode[] = [];
    for (const episodeId of ids) found.push((await jobs.getEpisode({ episodeId })).episode as Episode);
    return found;
  };

  beforeAll(async () => {
    runtime = await startLocalRuntime();
    jobs = createClient(JobService, runtime.address("controller"));
    const talks = await Promise.all(Array.from({ length: 128 }, (_, i) => demonstration(i)));
    const tasks = talks.map((messages, i) => ({ id: `d${i}`, demonstration: messages }));
    const optimizer = { learningRate: 0.003, beta2: 0.95, warmupSteps: 0 };
    const status = await train("form", {
      model: { path: runtime.model },
      train: { jsonl: file("demonstrations.jsonl", lines(tasks)) },
      algorithm: { sft: { optimizer, batching: { miniBatches: 8, epochs: 20 } } },
      loop: { steps: 1, batchGroups: 128 },
    });
    taught = status?.modelPath ?? "";
  }, 240_000);
  afterAll(async () => {
    await jobs[Symbol.asyncDispose]();
    await runtime[Symbol.asyncDispose]();
    rmSync(folder, { recursive: true, force: true });
  });

  it.each(["math", "math-revise"])(
    "the environment %s trains on sums",
    async (kind) => {
      const sums = Array.from({ length: 16 }, (_, i) => {
        const [a, b] = digits(i * 3);
        return { id: `s${i}`, payload: { question: `${a}+${b}=`, answer: a + b } };
      });
      await train(`sums-${kind}`, {
        model: { path: taught },
        agent: { kind: "math", args: { instruction: "" } },
        environment: { kind, args: { extraction: "whole" } },
        train: { jsonl: file("sums.jsonl", lines(sums)) },
        algorithm: GRPO,
        loop: { steps: 2, batchGroups: 8 },
        sampling: { temperature: 1, maxTokens: 4 },
        limits: { ...LIMITS, maxResponseTokens: 128 },
      });
      expect(audit(`sums-${kind}`)).toMatchObject({ ...SOUND, trained: 64 });
      const rewards = new Set((await episodesOf(`sums-${kind}`, 16)).map(({ reward }) => reward));
      expect(rewards).toEqual(new Set([0, 1]));
    },
    240_000,
  );

  it("the tool agent trains on sums and corpus questions, and its calls are executed", async () => {
    const corpus = file("corpus.jsonl", lines(DOCUMENTS));
    const questions = Array.from({ length: 24 }, (_, i) => {
      const [a, b] = digits(i);
      const [name, answer] = Object.entries(HOMES)[i % 4] as [string, string];
      const sum = { question: `calc ${a}+${b}`, answer: a + b, extraction: "whole" };
      return { id: `q${i}`, payload: i % 2 === 0 ? sum : { question: `where is ${name}?`, answer, grader: "exact" } };
    });
    await train("tools", {
      model: { path: taught },
      agent: { kind: "tool", args: { systemPrompt: "", describeTools: false } },
      environment: { kind: "tool", args: { tools: ["calculator", "search"], corpus } },
      train: { jsonl: file("questions.jsonl", lines(questions)) },
      algorithm: GRPO,
      loop: { steps: 3, batchGroups: 8 },
      sampling: { temperature: 0.6, maxTokens: 90 },
      limits: LIMITS,
    });
    expect(audit("tools")).toMatchObject({ ...SOUND, trained: 96 });
    const episodes = await episodesOf("tools", 24);
    const executed = episodes.filter((episode) => executedCalls(episode) > 0);
    expect(executed.length).toBeGreaterThanOrEqual(episodes.length / 2);
    const outputs = episodes.flatMap(({ trajectories }) =>
      trajectories.flatMap(({ steps }) => steps.map((step) => step.observation)),
    );
    expect(outputs.some((text) => text.includes("[Document 1] (ID: "))).toBe(true);
  }, 240_000);

  it.each([
    ["math", 0],
    ["tool", 1],
  ])(
    "examples/%s trains as its README says",
    async (name, calls) => {
      const small = { "model.path": taught, "loop.steps": "2", "loop.batchGroups": "4", "sampling.temperature": "0.6" };
      const settings = { name: `example-${name}`, ...small };
      const flags = Object.entries(settings).flatMap(([key, value]) => ["--set", `${key}=${value}`]);
      const { status, output } = runtime.whet("train", `examples/${name}/agent.ts`, ...flags);
      expect(status, output).toBe(0);
      expect(audit(`example-${name}`)).toMatchObject({ ...SOUND, trained: 64 });
      const episodes = await episodesOf(`example-${name}`, 8);
      expect(episodes.filter((episode) => executedCalls(episode) >= calls).length).toBeGreaterThanOrEqual(8);
    },
    240_000,
  );
});

/** Calls that ran, in the whole episode. */
function executedCalls({ trajectories }: Episode): number {
  const { toolCalls = 0, toolErrors = 0 } = trajectories[0]?.steps.at(-1)?.info ?? {};
  return Number(toolCalls) - Number(toolErrors);
}
