// SPDX-License-Identifier: Apache-2.0
import { expect, it } from "vitest";
import { AnswerParts } from "./answer-parts.ts";
import { readRequest } from "./generate-request.ts";
import { type Meta, MetaSchema } from "./native.ts";

const FACTS = { version: "0.5.23", model: "m", folder: "/m", maxModelLen: 64, worldSize: 1, label: "a:1" };

function partsOf(sampling: object): AnswerParts {
  const text = JSON.stringify({ token_ids: [1, 2], sampling_params: { max_tokens: 8, logprobs: 2, ...sampling } });
  return new AnswerParts(readRequest(text, FACTS), "a:1");
}

function meta(ids: readonly number[], more: object = {}): Meta {
  return MetaSchema.parse({
    ...{ weight_version: "a:1", finish_reason: null, completion_tokens: ids.length },
    output_token_logprobs: ids.map((id) => [-1, id, null]),
    ...more,
  });
}

it("takes the new tokens of an event that has all so far, and of one that has the new ones", () => {
  const parts = partsOf({});
  expect(parts.read(meta([5, 6])).ids).toEqual([5, 6]);
  expect(parts.read(meta([5, 6, 7])).ids).toEqual([7]);
  expect(parts.read(meta([8, 9], { completion_tokens: 5 })).ids).toEqual([8, 9]);
  expect(parts.spans).toEqual([{ version: "a:1", start: 0, end: 5 }]);
});

it("does not guess which tokens an event leaves out", () => {
  expect(() => partsOf({}).read(meta([5], { completion_tokens: 3 }))).toThrow(/1 log-probabilities for 3 tokens/);
});

it.each([
  ["another label", { weight_version: "a:2" }],
  ["no label", { weight_version: undefined }],
  ["a span of another label", { weight_versions: [{ version: "a:0" }, { version: "a:1" }] }],
])("refuses an answer with %s", (_name, more) => {
  expect(() => partsOf({}).read(meta([5], more))).toThrow(/the label of the weights was "a:1" when this began/);
});

it("gives log-probabilities among the tokens that top_k kept, and names those", () => {
  const top = [
    [Math.log(0.5), 5, null],
    [Math.log(0.3), 6, null],
    [Math.log(0.1), 7, null],
  ];
  const own = { output_token_logprobs: [[Math.log(0.3), 6, null]], output_top_logprobs: [top] };
  const part = partsOf({ top_k: 2 }).read(meta([6], own));
  expect(part.masks).toEqual([[5, 6]]);
  expect(part.content[0]?.logprob).toBeCloseTo(Math.log(0.3 / 0.8), 9);
  expect(part.content[0]?.top_logprobs.map(({ token_id }) => token_id)).toEqual([6, 5]);
});

it("stops at a stop token where SGLang does not, and says which one it was", () => {
  const parts = partsOf({ ignore_eos: true, stop_token_ids: [6] });
  expect(parts.read(meta([5]))).toMatchObject({ ids: [5], finishReason: undefined });
  expect(parts.read(meta([5, 6, 7]))).toMatchObject({ ids: [6], finishReason: "stop", stopReason: 6 });
});

it("writes a log-probability that is none as vLLM does, and hands on an error that is streamed as an abort", () => {
  expect(partsOf({}).read(meta([5], { output_token_logprobs: [[null, 5, null]] })).content[0]?.logprob).toBe(-9999);
  const finish_reason = { type: "abort", message: "too long", status_code: 400 };
  expect(() => partsOf({}).read(meta([], { finish_reason }))).toThrow("too long");
});

it.each([
  [{ top_p: 0.9 }, /top_p and min_p: SGLang gives log-probabilities before them only/],
  [{ min_p: 0.1 }, /top_p and min_p/],
  [{ top_k: 513 }, /top_k: at most 512/],
  [{ n: 2 }, /^sampling_params\.n: it answers once/],
  [{ stop: ["x"] }, /^sampling_params\.stop: it stops at token ids only/],
  [{ prompt_logprobs: 1 }, /^sampling_params\.prompt_logprobs: /],
  [{ structured_outputs: { regex: "a" } }, /^sampling_params\.structured_outputs: /],
])("refuses %j", (sampling, message) => {
  expect(() => partsOf(sampling)).toThrow(message);
});

it("draws a greedy answer from all tokens, whatever truncation says", () => {
  expect(partsOf({ temperature: 0, top_k: 5, top_p: 0.5 }).read(meta([5])).masks).toEqual([]);
});
