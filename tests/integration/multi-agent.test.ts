// SPDX-License-Identifier: Apache-2.0
// The examples with several roles, as an orchestrator plays them, over the real gateway and an engine whose answers are
// written here. The gateway's model is the tiny one: token i is byte i.
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { create } from "@bufbuild/protobuf";
import { RolloutTaskSchema } from "@whetstone/proto/events/v1/events";
import { type Episode, FailureClass, Purpose } from "@whetstone/proto/types/v1/types";
import { createRegistry, deriveSeed, readModule, type RegisteredActor } from "@whetstone/sdk";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import * as generatorCritic from "../../examples/generator-critic/agent.ts";
import * as selfPlay from "../../examples/self-play/agent.ts";
import * as solverJudge from "../../examples/solver-judge/agent.ts";
import { FakeEngine } from "../../services/inference-gateway/test/fake-engine.ts";
import { type Gateway as App, serve, startGateway, TINY } from "../../services/inference-gateway/test/harness.ts";
import { playTask } from "../../services/rollout-orchestrator/src/play/play-task.ts";
import { ExternalModels } from "../../services/rollout-orchestrator/src/play/external-models.ts";
import { Gateway } from "../../services/rollout-orchestrator/src/play/gateway.ts";
import { RunnerClients } from "../../services/rollout-orchestrator/src/environments/runner-clients.ts";
import { fixedRunner } from "../../services/rollout-orchestrator/src/environments/runners.ts";

const END = 260;
let engine: FakeEngine;
let app: App;
let gateway: Gateway;

beforeAll(async () => {
  engine = await FakeEngine.start();
  app = await startGateway();
  await serve(app, "e0", engine.url, TINY);
  gateway = new Gateway(app.httpUrl, 16);
});
afterAll(async () => {
  await gateway[Symbol.asyncDispose]();
  await app.close();
  await engine.kill();
});

/** @param say  what the engine answers to a prompt, without the template's tokens. */
function answerWith(say: (prompt: string) => string): void {
  engine.script = ({ token_ids }) => {
    const prompt = Buffer.from(token_ids.map((id) => (id < 256 ? id : 10))).toString();
    return [...Buffer.from(say(prompt)), END];
  };
}

let played = 0;

async function play(exports: object, seed: number): Promise<Episode> {
  const { actors } = readModule(exports as Record<string, unknown>);
  expect(actors).toHaveLength(1);
  const task = create(RolloutTaskSchema, {
    episodeId: `job/g${(played += 1)}/s0`,
    job: "job",
    purpose: Purpose.TRAIN,
    task: { id: `seed-${seed}`, payload: { seed } },
    seed: BigInt(seed),
    agent: { kind: actors[0]?.kind ?? "" },
    model: "job",
    sampling: { maxTokens: 16 },
    limits: { maxPromptTokens: 256 },
  });
  const registry = createRegistry<RegisteredActor>("agent", actors);
  await using environments = new RunnerClients();
  const deps = { actors: registry, environments, gateway, externals: new ExternalModels({}) };
  const runners = fixedRunner("127.0.0.1:1");
  return await playTask(deps, { task, attempt: 1, waitingMs: 0, runners }, new AbortController().signal);
}

function shape(episode: Episode) {
  expect(episode.failure?.message).toBe("");
  expect(episode.failure?.failureClass).toBe(FailureClass.NONE);
  return episode.trajectories.map(
    ({ role, reward, steps }) => [role, reward, steps.map((step) => step.modelResponse)] as const,
  );
}

/** Every step names a call of its own that was asked in its role, and every call has a step (I4). */
function expectNamed({ trajectories, calls }: Episode): void {
  const roles = new Map(calls.map(({ id, role }) => [id, role]));
  const steps = trajectories.flatMap(({ role, steps }) => steps.map(({ callId }) => [callId, role] as const));
  expect(new Map(steps)).toEqual(roles);
  expect(steps).toHaveLength(calls.length);
}

describe("solver and judge", () => {
  const right = String((deriveSeed(3, "a") % 5) + (deriveSeed(3, "b") % 5));
  /** What the judge is shown is "1) x" and "2) 5", in the order of asking. */
  const numberOf = (answer: string, prompt: string): string =>
    new RegExp(`(\\d)\\) ${answer}\\n`).exec(prompt)?.[1] ?? "";

  it.each([
    ["the right answer", right, 1, true],
    ["the wrong answer", "x", 0, false],
    ["nothing", "?", 0, false],
  ] as const)("when the judge takes %s", async (...[, taken, reward, isCorrect]) => {
    let asked = 0;
    answerWith((prompt) => {
      if (prompt.includes("Which")) return numberOf(taken, prompt) || "?";
      return (asked += 1) === 1 ? "x" : right;
    });
    const episode = await play(solverJudge, 3);
    const rewards = shape(episode).map(([role, value, texts]) => [role, value, texts[0]]);
    expect(rewards.slice(0, 2)).toEqual(
      expect.arrayContaining([
        ["solver", 0, "x"],
        ["solver", 1, right],
      ]),
    );
    expect(rewards[2]?.slice(0, 2)).toEqual(["judge", reward]);
    expect([episode.isCorrect, episode.metrics["solved"]]).toEqual([isCorrect, 0.5]);
    expectNamed(episode);
  });
});

describe("generator and critic", () => {
  it("pays the critic for the improvement, and continues the generator's conversation exactly", async () => {
    answerWith((prompt) => {
      if (prompt.includes("What is wrong")) return "first";
      return prompt.includes("first") ? "enots" : "xnots";
    });
    const episode = await play(generatorCritic, 0);
    expect(shape(episode)).toEqual([
      ["generator", 1, ["xnots", "enots"]],
      ["critic", expect.closeTo(0.2), ["first"]],
    ]);
    expect([episode.isCorrect, episode.calls.map(({ parentId }) => parentId)]).toEqual([true, ["", "", "c0"]]);
    expectNamed(episode);
  });
});

describe("self-play", () => {
  const moves = (...cells: string[]) => answerWith(() => cells.shift() ?? "?");

  it("pays the winner what the loser loses", async () => {
    moves("1", "4", "2", "5", "3");
    const episode = await play(selfPlay, 0);
    expect(shape(episode)).toEqual([
      ["player X", 1, ["1", "2", "3"]],
      ["player O", -1, ["4", "5"]],
    ]);
    expect(episode.trajectories[0]?.steps.map(({ reward }) => reward)).toEqual([0, 0, 1]);
    expect(episode.reward).toBe(0);
    expectNamed(episode);
  });

  it.each([["1"], ["0"], ["X"], ["ten"]])("loses by the move %s", async (wrong) => {
    moves("1", wrong);
    expect(shape(await play(selfPlay, 0)).map(([role, reward]) => [role, reward])).toEqual([
      ["player X", 1],
      ["player O", -1],
    ]);
  });

  it("may be drawn", async () => {
    moves(..."152379648");
    expect(shape(await play(selfPlay, 0)).map(([, reward, texts]) => [reward, texts.length])).toEqual([
      [0, 5],
      [0, 4],
    ]);
  });
});

it.each(["solver-judge", "generator-critic", "self-play"])("%s has at most 60 lines", (name) => {
  const text = readFileSync(join(import.meta.dirname, `../../examples/${name}/agent.ts`), "utf8");
  expect(text.trimEnd().split("\n").length).toBeLessThanOrEqual(60);
});
