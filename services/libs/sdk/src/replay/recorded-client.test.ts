// SPDX-License-Identifier: Apache-2.0
import { describe, expect, it } from "vitest";
import { AgentExecutionEngine } from "../engine/agent-execution-engine.ts";
import { FrozenLakeEnv } from "../frozenlake/environment.ts";
import type { RolloutClient } from "../rollout-client.ts";
import type { Episode } from "../types.ts";
import { EchoAgent } from "../../test-support/stand-ins.ts";
import { RecordedClient, type RecordedAnswer, recordedAnswers } from "./recorded-client.ts";

const LAKE = {
  size: 6,
  frozenProbability: 0.9,
  slippery: true,
  maxSteps: 9,
  observation: "standard",
  stepDiscount: 1,
} as const;
const MOVES = ["Left", "Up", "Left", "Up", "Left"];

function play(rolloutClient: RolloutClient, seed = 7): Promise<Episode> {
  const engine = new AgentExecutionEngine({
    rolloutClient,
    agentFactory: () => new EchoAgent(),
    environmentFactory: () => new FrozenLakeEnv(LAKE),
    retryLimit: 0,
  });
  return engine.runEpisode({ id: "e", task: { id: "t", payload: {} }, seed });
}

const answers = (texts: readonly string[]): RecordedAnswer[] =>
  texts.map((text, i) => ({ callId: `c${i}`, role: "agent", text }));

const seen = ({ trajectories }: Episode): unknown[] =>
  (trajectories[0]?.steps ?? []).map(({ observation, action, reward }) => ({ observation, action, reward }));

const ask = (client: RecordedClient, role: string, seed: number): Promise<string> =>
  client
    .chat([], { role, seed, sampling: {}, maxTokens: 1, signal: new AbortController().signal, remainingMs: 1 })
    .then(({ text }) => text);

describe("RecordedClient", () => {
  it("makes the same agent and environment do the same again", async () => {
    const first = await play(new RecordedClient(answers(MOVES)));
    const again = await play(new RecordedClient(recordedAnswers(first)));
    expect(seen(again)).toEqual(seen(first));
    expect(again.finalObservation).toEqual(first.finalObservation);
  });

  it("shows another environment by its observations", async () => {
    const first = await play(new RecordedClient(answers(MOVES)));
    expect(seen(await play(new RecordedClient(recordedAnswers(first)), 8))).not.toEqual(seen(first));
  });

  it("fails the episode that asks for more than was recorded", async () => {
    const episode = await play(new RecordedClient(answers(MOVES.slice(0, 2))));
    expect(episode.failure).toMatchObject({ class: "INFRASTRUCTURE", code: "DATA_LOSS" });
    expect(seen(episode)).toHaveLength(2);
  });

  it("finds calls made side by side by their seeds, and others by role in order", async () => {
    const client = new RecordedClient([
      { callId: "c0", role: "solver", seed: 1, text: "one" },
      { callId: "c1", role: "solver", seed: 2, text: "two" },
      { callId: "c2", role: "judge", text: "first" },
      { callId: "c3", role: "judge", text: "second" },
    ]);
    expect(await Promise.all([ask(client, "solver", 2), ask(client, "solver", 1)])).toEqual(["two", "one"]);
    expect(await Promise.all([ask(client, "judge", 9), ask(client, "judge", 8)])).toEqual(["first", "second"]);
    expect(client.left).toBe(0);
  });
});
