// SPDX-License-Identifier: Apache-2.0
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { create, fromJson, type JsonValue } from "@bufbuild/protobuf";
import { EpisodeSchema, Purpose } from "@whetstone/proto/types/v1/types";
import { expect, it } from "vitest";
import { summarize } from "./summary.ts";
import { whyNotTrainable } from "./trainable.ts";

interface Vector {
  readonly name: string;
  readonly episode: JsonValue;
  readonly notTrainable: string;
}

const FILE = join(import.meta.dirname, "../../../../proto/golden/trainable.json");
const { vectors } = JSON.parse(readFileSync(FILE, "utf8")) as { vectors: Vector[] };

it.each(vectors)("as the trainer judges: $name", ({ episode, notTrainable }) => {
  const why = whyNotTrainable(fromJson(EpisodeSchema, episode));
  if (notTrainable === "") expect(why).toBe("");
  else expect(why).toContain(notTrainable);
});

it("one greedy model call beside others leaves the episode to be trained, nothing but greedy ones does not", () => {
  const greedy = { id: "c0", promptIds: [1], completionIds: [2], logprobs: [0], sampling: { temperature: 0 } };
  const sampled = { ...greedy, id: "c1", sampling: { temperature: 1 } };
  const summaryOf = (...calls: object[]) => summarize(create(EpisodeSchema, { purpose: Purpose.TRAIN, calls }), "d");
  expect(summaryOf(greedy, sampled)).toMatchObject({ notTrainable: "", sampledTokens: 2 });
  expect(summaryOf(greedy).notTrainable).toContain("every call was greedy");
});

it("of a baseline only the reward is used, so only that is judged", () => {
  const calls = [{ id: "c0", promptIds: [1], completionIds: [2], sampling: { temperature: 0 } }];
  const why = (reward: number) => whyNotTrainable(create(EpisodeSchema, { purpose: Purpose.BASELINE, calls, reward }));
  expect([why(0), why(Number.NaN)]).toEqual(["", "its reward is not finite"]);
});

it("validation is not judged: it is never trained", () => {
  const calls = [{ id: "c0", promptIds: [1], completionIds: [2], sampling: { temperature: 0 } }];
  expect(whyNotTrainable(create(EpisodeSchema, { purpose: Purpose.VALIDATION, calls }))).toBe("");
});
