// SPDX-License-Identifier: Apache-2.0
import { createHash } from "node:crypto";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { Lru } from "../domain/lru.ts";
import { ModelCodec } from "./model-codec.ts";

const FILES = ["tokenizer.json", "tokenizer_config.json", "chat_template.jinja", "generation_config.json"] as const;

/**
 * Loads tokenizers and chat templates of model folders. Every version of a policy has its own folder with the same
 * tokenizer in it, so what was loaded is shared by content: a weight switch costs four small reads, not a parse.
 */
export class ModelFolders {
  readonly #loaded = new Lru<string, ModelCodec>(8);

  /** @throws Error that names the folder and what is wrong with it. */
  async load(path: string): Promise<ModelCodec> {
    const texts = await Promise.all(FILES.map((name) => readOptional(join(path, name))));
    const digest = createHash("sha256").update(JSON.stringify(texts)).digest("hex");
    const known = this.#loaded.get(digest);
    if (known !== undefined) return known;
    const codec = this.#parse(path, texts);
    this.#loaded.set(digest, codec);
    return codec;
  }

  #parse(path: string, [tokenizer, config, template, generation]: (string | null)[]): ModelCodec {
    try {
      if (tokenizer === null || tokenizer === undefined) throw new Error("tokenizer.json is missing");
      const tokenizerConfig = parseJson("tokenizer_config.json", config ?? "{}");
      const source = template ?? templateOf(tokenizerConfig["chat_template"]);
      const eos = parseJson("generation_config.json", generation ?? "{}")["eos_token_id"];
      return new ModelCodec(parseJson("tokenizer.json", tokenizer), tokenizerConfig, source, eos);
    } catch (error) {
      throw new Error(`model folder ${path}: ${error instanceof Error ? error.message : String(error)}`, {
        cause: error,
      });
    }
  }
}

async function readOptional(path: string): Promise<string | null> {
  try {
    return await readFile(path, "utf8");
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return null;
    throw error;
  }
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
