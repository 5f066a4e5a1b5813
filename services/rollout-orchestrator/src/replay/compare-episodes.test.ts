// SPDX-License-Identifier: Apache-2.0
import { create, type MessageInitShape } from "@bufbuild/protobuf";
import { type Episode, EpisodeSchema, FailureClass, TerminationReason } from "@whetstone/proto/types/v1/types";
import { PromptTooLongError } from "@whetstone/sdk";
import { describe, expect, it } from "vitest";
import { compareEpisodes } from "./compare-episodes.ts";
import { recordOf } from "../play/record.ts";

type Fields = Exclude<MessageInitShape<typeof EpisodeSchema>, Episode>;

const STEPS = [
  { callId: "c0", observation: "P..", action: "Right", reward: 0 },
  { callId: "c1", observation: ".P.", action: "Right", reward: 1, done: true },
];

function episode(fields: Fields = {}, steps: object[] = STEPS, finalObservation = "..P"): Episode {
  return create(EpisodeSchema, {
    id: "j/g0/s0",
    trajectories: [{ id: "t0", role: "agent", steps, finalObservation }],
    terminationReason: TerminationReason.ENV_DONE,
    failure: { failureClass: FailureClass.NONE },
    isCorrect: true,
    ...fields,
  });
}

const changed = (step: number, fields: object): object[] => STEPS.map((s, i) => (i === step ? { ...s, ...fields } : s));
const fieldsOf = (a: Episode, b: Episode): string[] => compareEpisodes(a, b).map(({ field }) => field);

describe("compareEpisodes", () => {
  it("finds nothing between equals, whatever the order of sums made of a reward", () => {
    expect(compareEpisodes(episode(), episode({}, changed(1, { reward: 1 + 1e-12 })))).toEqual([]);
  });

  it.each([
    ["observation", changed(1, { observation: "P.." })],
    ["action", changed(0, { action: "Down" })],
    ["reward", changed(1, { reward: 0.5 })],
    ["done", changed(1, { done: false })],
    ["steps", STEPS.slice(0, 1)],
  ])("finds another %s", (field, steps) => {
    expect(fieldsOf(episode(), episode({}, steps))).toEqual([field]);
  });

  it.each<[string, Fields]>([
    ["is_correct", { isCorrect: false }],
    ["termination_reason", { terminationReason: TerminationReason.MAX_TURNS }],
    ["failure", { failure: { failureClass: FailureClass.ENVIRONMENT, phase: "step", message: "gone" } }],
    ["steps", { trajectories: [] }],
  ])("finds another %s of the episode", (field, fields) => {
    expect(fieldsOf(episode(), episode(fields))).toEqual([field]);
  });

  it("says where: role, trajectory, step, and both values", () => {
    expect(compareEpisodes(episode(), episode({}, changed(1, { action: "Up" })))).toMatchObject([
      { role: "agent", trajectory: 0, step: 1, field: "action", recorded: "Right", replayed: "Up" },
    ]);
    expect(compareEpisodes(episode(), episode({}, STEPS, "else"))).toMatchObject([{ field: "final_observation" }]);
  });

  it.each<[string, Fields]>([
    ["failed", { failure: { failureClass: FailureClass.ENVIRONMENT }, terminationReason: TerminationReason.ERROR }],
    ["was cut by time", { terminationReason: TerminationReason.DEADLINE }],
  ])("compares only the turns of an episode that %s", (_what, fields) => {
    const recorded = episode(fields, STEPS.slice(0, 1), "");
    expect(compareEpisodes(recorded, episode())).toEqual([]);
    expect(fieldsOf(recorded, episode({}, changed(0, { action: "Up" })))).toEqual(["action"]);
  });
});

describe("recordOf", () => {
  const options = { sampling: {}, maxTokens: 9, signal: new AbortController().signal, remainingMs: 1 };
  const recorded = episode({
    calls: [
      { id: "c0", role: "agent", promptIds: [1, 2, 3], completionIds: [4, 5], text: "Right", seed: 11n },
      { id: "c1", role: "agent", parentId: "c0", promptIds: [6], completionIds: [7], text: "Right", seed: 12n },
    ],
    trajectories: [
      { role: "agent", steps: STEPS },
      { role: "judge", steps: [{ callId: "x", modelResponse: "good" }] },
    ],
  });

  it("counts whole prompts, so that budgets end where they ended", async () => {
    const record = recordOf(recorded);
    const answer = await record.chat([], { ...options, role: "agent", seed: 12 });
    expect(answer).toMatchObject({ callId: "c1", usage: { promptTokens: 6, completionTokens: 1 } });
  });

  it("answers for roles of other models from their steps", async () => {
    expect((await recordOf(recorded).chat([], { ...options, role: "judge", seed: 0 })).text).toBe("good");
  });

  it("ends as the recorded episode ended", async () => {
    const ask = (fields: Fields) => recordOf(episode(fields)).chat([], { ...options, role: "agent", seed: 0 });
    const none = { trajectories: [] };
    await expect(ask(none)).rejects.toMatchObject({ code: "DATA_LOSS" });
    const tooLong = { ...none, terminationReason: TerminationReason.MAX_PROMPT_LENGTH };
    await expect(ask(tooLong)).rejects.toBeInstanceOf(PromptTooLongError);
  });
});
