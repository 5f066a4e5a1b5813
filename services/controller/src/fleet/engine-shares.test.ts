// SPDX-License-Identifier: Apache-2.0
import { create } from "@bufbuild/protobuf";
import { type Engine, EngineSchema, EngineState } from "@whetstone/proto/inference/v1/inference";
import { expect, it } from "vitest";
import { EngineShares, type Sharer } from "./engine-shares.ts";

/** Engines by the job that they serve; "-": fenced, with nothing. */
const engines = (...serve: string[]): Engine[] =>
  serve.map((job, index) => {
    const state = job === "-" ? EngineState.FENCED : EngineState.SERVING;
    return create(EngineSchema, { id: `e${index}`, state, ...(job !== "-" && { policy: { policy: job } }) });
  });
const jobs = (weights: Record<string, number>): Sharer[] =>
  Object.entries(weights).map(([name, weight]) => ({ name, weight }));

function shared(
  list: readonly Engine[],
  weights: Record<string, number>,
  { failing = [] as string[], shares = new EngineShares() } = {},
): string {
  shares.update(list, jobs(weights), (id) => failing.includes(id));
  return list.map(({ id }) => shares.of(id) ?? "-").join("");
}

it.each([
  ["a lone job has them all", { a: 1 }, 3, "aaa"],
  ["equal jobs have equal numbers, and the older one what is left over", { a: 1, b: 1 }, 3, "aab"],
  ["they are shared by weight", { a: 1, b: 3 }, 8, "aabbbbbb"],
  ["a light job has one, too", { a: 1, b: 100 }, 4, "abbb"],
  ["those that came first have one where there are too few", { a: 1, b: 1, c: 9 }, 2, "ab"],
  ["nobody has any without jobs", {}, 2, "--"],
])("%s", (_, weights, count, expected) => {
  expect(shared(engines(...Array.from({ length: count }, () => "-")), weights)).toBe(expected);
});

it("an engine stays with its job as far as that may keep it, and those that serve it stay first", () => {
  expect(shared(engines("b", "a", "a", "b"), { a: 1, b: 1 })).toBe("baab");
  expect(shared(engines("-", "a", "-", "a"), { a: 1, b: 1 })).toBe("baba");
});

it("what a job leaves behind goes to those that are there", () => {
  const shares = new EngineShares();
  expect(shared(engines("-", "-", "-", "-"), { a: 1, b: 1 }, { shares })).toBe("aabb");
  expect(shared(engines("a", "a", "b", "b"), { b: 1 }, { shares })).toBe("bbbb");
  expect(shared(engines("b", "b", "b", "b"), { b: 1, c: 1 }, { shares })).toBe("bbcc");
});

it("an engine that fails counts for nobody and stays where it is, until it is well again", () => {
  const shares = new EngineShares();
  expect(shared(engines("-", "-", "-"), { a: 1 }, { shares })).toBe("aaa");
  expect(shared(engines("a", "-", "a"), { a: 1, b: 1 }, { shares, failing: ["e1"] })).toBe("aab");
  expect(shared(engines("a", "-", "-"), { a: 1, b: 1 }, { shares, failing: ["e1", "e2"] })).toBe("aab");
  expect(shared(engines("a", "a", "-"), { a: 1, b: 1 }, { shares })).toBe("aab");
});
