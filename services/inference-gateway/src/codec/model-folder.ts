// SPDX-License-Identifier: Apache-2.0
import { createHash } from "node:crypto";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { Lru } from "../lru.ts";
import type { ArtifactFiles } from "./artifact-files.ts";
import { buildCodec } from "./codec-files.ts";
import type { CodecFiles } from "./codec-files.ts";
import { CodecThread } from "./codec-thread.ts";
import type { ModelCodec } from "./model-codec.ts";
import { OffloadingCodec } from "./offloading-codec.ts";

const FILES = ["tokenizer.json", "tokenizer_config.json", "chat_template.jinja", "generation_config.json"] as const;

/**
 * Loads tokenizers and chat templates of model folders. Every version of a policy has its own folder with the same
 * tokenizer in it, so what was loaded is shared by content: a weight switch costs four small reads, not a parse.
 */
export class ModelFolders implements AsyncDisposable {
  readonly #loaded = new Lru<string, OffloadingCodec>(8);
  readonly #threads = new Set<CodecThread>();
  readonly #answerFormat: string | undefined;

  readonly #artifacts: ArtifactFiles | undefined;

  /**
   * @param answerFormat  see formatOf.
   * @param artifacts  reads models that were pushed; undefined: their folders are here.
   */
  constructor(answerFormat?: string, artifacts?: ArtifactFiles) {
    this.#answerFormat = answerFormat;
    this.#artifacts = artifacts;
  }

  /** A codec of its own, without a thread. @throws Error as `load` does */
  static async codecOf(path: string): Promise<ModelCodec> {
    return built(path, filesOf(await textsIn(path)));
  }

  /** @throws Error that names the folder and what is wrong with it. */
  async load(path: string): Promise<OffloadingCodec> {
    const texts = await (this.#artifacts?.read(path, FILES) ?? textsIn(path));
    const digest = createHash("sha256").update(JSON.stringify(texts)).digest("hex");
    const known = this.#loaded.get(digest);
    if (known !== undefined) return known;
    const files = filesOf(texts);
    const codec = new OffloadingCodec(built(path, files, this.#answerFormat), new CodecThread(files, this.#threads));
    this.#loaded.set(digest, codec);
    return codec;
  }

  /** Ends the threads that run. */
  async [Symbol.asyncDispose](): Promise<void> {
    await Promise.all([...this.#threads].map((thread) => thread[Symbol.asyncDispose]()));
  }
}

function built(path: string, files: CodecFiles, answerFormat?: string): ModelCodec {
  try {
    return buildCodec(files, answerFormat);
  } catch (error) {
    throw new Error(`model folder ${path}: ${error instanceof Error ? error.message : String(error)}`, {
      cause: error,
    });
  }
}

/** In the order of FILES. */
function textsIn(path: string): Promise<(string | undefined)[]> {
  return Promise.all(FILES.map((name) => readOptional(join(path, name))));
}

function filesOf(texts: readonly (string | undefined)[]): CodecFiles {
  return Object.fromEntries(FILES.map((name, i) => [name, texts[i]])) as unknown as CodecFiles;
}

async function readOptional(path: string): Promise<string | undefined> {
  try {
    return await readFile(path, "utf8");
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return undefined;
    throw error;
  }
}
