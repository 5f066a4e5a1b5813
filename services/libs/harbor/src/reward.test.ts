// SPDX-License-Identifier: Apache-2.0
import { describe, expect, it } from "vitest";
import { rewardOf, rewardsOfJson, rewardsOfText } from "./reward.ts";

describe("a reward that tests have written", () => {
  it.each([
    ["1", 1],
    [" 0.25\n", 0.25],
    ["-3", -3],
    ["+.5", 0.5],
    ["1.", 1],
    ["1e-2", 0.01],
    ["1_000", 1000],
  ])("%j is %d, as Python reads it", (text, reward) => {
    expect(rewardsOfText(text)).toEqual({ reward });
  });

  it.each(["", " \n", "one", "nan", "inf", "-Infinity", "1e999", "0x10", "1 2", "1,5", "_1", "1__0"])(
    "%j is none",
    (text) => {
      expect(() => rewardsOfText(text)).toThrow(expect.objectContaining({ failureClass: "GRADER" }));
    },
  );

  it("is read from JSON: numbers by their names, truth as 1", () => {
    expect(rewardsOfJson('{"reward": 0.5, "style": 2, "done": true}')).toEqual({ reward: 0.5, style: 2, done: 1 });
  });

  it.each(["", "{", "NaN", '{"reward": NaN}', '{"reward": "1"}', '{"reward": 1e999}', '{"reward": null}', "[1]", "1"])(
    "%j is none in JSON",
    (text) => {
      expect(() => rewardsOfJson(text)).toThrow(expect.objectContaining({ failureClass: "GRADER" }));
    },
  );

  it("is the named one, else `reward`, else the only one, and never a guess", () => {
    expect(rewardOf({ a: 1, b: 2 }, "b")).toBe(2);
    expect(rewardOf({ a: 1, reward: 2 }, undefined)).toBe(2);
    expect(rewardOf({ a: 1 }, undefined)).toBe(1);
    expect(() => rewardOf({ a: 1, b: 2 }, undefined)).toThrow(/no reward "reward", but a, b: name one in rewardKey/u);
    expect(() => rewardOf({ a: 1 }, "c")).toThrow(/no reward "c", but a/u);
    expect(() => rewardOf({}, undefined)).toThrow(/none at all/u);
  });
});
