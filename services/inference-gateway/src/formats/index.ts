// SPDX-License-Identifier: Apache-2.0
import { deepseekV3 } from "./deepseek-v3.ts";
import { deepseekV31 } from "./deepseek-v31.ts";
import { type AnswerFormat, THINK } from "./format.ts";
import { glm45 } from "./glm45.ts";
import { harmony } from "./harmony.ts";
import { hermes } from "./hermes.ts";
import { kimiK2 } from "./kimi-k2.ts";
import { llama3Json } from "./llama3-json.ts";
import { minimaxM2 } from "./minimax-m2.ts";
import { mistral } from "./mistral.ts";
import { pythonic } from "./pythonic.ts";
import { qwen3Xml } from "./qwen3-xml.ts";

/** A model that writes no calls. */
export const PLAIN: AnswerFormat = { name: "plain", isOf: () => true, blocks: [] };
/** A model that writes no calls, and thinks. */
const thinking: AnswerFormat = {
  ...PLAIN,
  name: "thinking",
  isOf: (text) => text.includes(THINK.close),
  thoughts: THINK,
};

/** The first that a template shows is its model's: the more particular ones stand before those that share their marks. */
export const FORMATS: readonly AnswerFormat[] = [
  ...[harmony, kimiK2, minimaxM2, deepseekV3, deepseekV31, glm45, qwen3Xml, hermes, mistral, pythonic, llama3Json],
  ...[thinking, PLAIN],
];

/** @param name  a format's own, or "auto": the one that the chat template shows. */
export function formatOf(template: string, name = "auto"): AnswerFormat {
  const found = FORMATS.find((format) => (name === "auto" ? format.isOf(template) : format.name === name));
  return found ?? PLAIN;
}
