// SPDX-License-Identifier: Apache-2.0
import type { AnswerFormat, ReadCall } from "./format.ts";
import { malformedCall, readCallOf } from "./read-json.ts";

const MESSAGE = "<|message|>";

/** Channels of gpt-oss: thoughts in "analysis", calls in "commentary" with a receiver, the answer in "final". */
export const harmony: AnswerFormat = {
  name: "harmony",
  isOf: (template) => template.includes("<|channel|>") && template.includes("<|start|>"),
  blocks: [
    { open: "<|channel|>commentary to=", close: "<|call|>", read: readCalls },
    // The receiver may stand in the message's head, before its channel.
    { open: "<|start|>assistant to=", close: "<|call|>", read: readCalls },
    { open: "to=functions.", close: "<|call|>", first: true, read: (inner) => readCalls(`functions.${inner}`) },
  ],
  dropped: [
    ...["<|start|>assistant", "<|channel|>final<|message|>", "<|channel|>commentary<|message|>"],
    ...["<|end|>", "<|return|>", "<|start|>", "<|channel|>", "<|constrain|>", MESSAGE],
  ],
  thoughts: { open: "<|channel|>analysis<|message|>", close: "<|end|>" },
  forced: (name) =>
    `<|channel|>commentary to=functions.${name === undefined ? "" : `${name} <|constrain|>json<|message|>`}`,
};

function readCalls(text: string): ReadCall[] {
  const name = /^functions\.([\w-]+)/.exec(text)?.[1];
  const at = text.indexOf(MESSAGE);
  return [at < 0 || name === undefined ? malformedCall(name, text) : readCallOf(name, text.slice(at + MESSAGE.length))];
}
