// SPDX-License-Identifier: Apache-2.0
import { ModelCodec } from "./model-codec.ts";

/** The texts of a model folder's files that make a codec; undefined: there is none. */
export interface CodecFiles {
  readonly "tokenizer.json": string | undefined;
  readonly "tokenizer_config.json": string | undefined;
  readonly "chat_template.jinja": string | undefined;
  readonly "generation_config.json": string | undefined;
}

/** @param answerFormat  see formatOf. @throws Error that says which file is wrong. */
export function buildCodec(files: CodecFiles, answerFormat?: string): ModelCodec {
  const tokenizer = files["tokenizer.json"];
  if (tokenizer === undefined) throw new Error("tokenizer.json is missing");
  const tokenizerConfig = parseJson("tokenizer_config.json", files["tokenizer_config.json"] ?? "{}");
  const source = files["chat_template.jinja"] ?? templateOf(tokenizerConfig["chat_template"]);
  const generationEos = parseJson("generation_config.json", files["generation_config.json"] ?? "{}")["eos_token_id"];
  return new ModelCodec(parseJson("tokenizer.json", tokenizer), tokenizerConfig, source, {
    generationEos,
    answerFormat,
  });
}

function parseJson(name: string, text: string): Record<string, unknown> {
  try {
    return JSON.parse(text) as Record<string, unknown>;
  } catch (error) {
    throw new Error(`${name} is not JSON: ${String(error)}`, { cause: error });
  }
}

/** A template, or the one named "default" of several. */
function templateOf(value: unknown): string {
  if (typeof value === "string") return value;
  const named = Array.isArray(value) ? (value as { name: string; template: string }[]) : [];
  const template = named.find(({ name }) => name === "default")?.template;
  if (template === undefined) throw new Error("no chat template in tokenizer_config.json or chat_template.jinja");
  return template;
}
