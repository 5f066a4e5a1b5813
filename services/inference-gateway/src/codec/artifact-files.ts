// SPDX-License-Identifier: Apache-2.0
import { createHash } from "node:crypto";
import { artifactOfPath, WhetstoneError } from "@whetstone/core";
import type { ArtifactFile, ArtifactService } from "@whetstone/proto/artifacts/v1/artifacts";
import type { RpcClient } from "@whetstone/rpc";
import { Lru } from "../lru.ts";

const ANSWER_MS = 60_000;
/** As many models keep their texts here; an artifact never changes. */
const KEPT = 8;
/** Tokenizers have some ten MB. */
const MOST_BYTES = 256 * 2 ** 20;

export type ArtifactSource = Pick<RpcClient<typeof ArtifactService>, "getArtifact" | "readFile">;
export type Texts = readonly (string | undefined)[];

/** Texts of models that were pushed, from the controller: for a gateway that shares no volume with it. */
export class ArtifactFiles {
  readonly #source: ArtifactSource;
  readonly #read = new Lru<string, Texts>(KEPT);

  constructor(source: ArtifactSource) {
    this.#source = source;
  }

  /** @returns for each name its text, or undefined where there is no such file; undefined: the folder is no artifact's */
  read(folder: string, names: readonly string[]): Promise<Texts> | undefined {
    const artifact = artifactOfPath(folder);
    if (!artifact) return undefined;
    const { digest, file = "" } = artifact;
    return this.#texts(digest, file === "" ? names : names.map((name) => `${file}/${name}`));
  }

  async #texts(digest: string, paths: readonly string[]): Promise<Texts> {
    const key = JSON.stringify([digest, paths]);
    const texts = this.#read.get(key) ?? (await this.#fetch(digest, paths));
    this.#read.set(key, texts);
    return texts;
  }

  async #fetch(digest: string, paths: readonly string[]): Promise<Texts> {
    const request = { of: { case: "digest", value: digest } } as const;
    const { artifact } = await this.#source.getArtifact(request, { deadlineMs: ANSWER_MS });
    const files = new Map(artifact?.files.map((file) => [file.path, file]));
    const textOf = async (path: string): Promise<string | undefined> => {
      const file = files.get(path);
      return file && (await this.#text(digest, file));
    };
    return await Promise.all(paths.map(textOf));
  }

  async #text(digest: string, { path, size, sha256 }: ArtifactFile): Promise<string> {
    if (size > MOST_BYTES) throw new WhetstoneError("INVALID_ARGUMENT", `${path} has ${size} bytes: that is no text`);
    const parts: Uint8Array[] = [];
    for await (const { content } of this.#source.readFile({ digest, path }, { deadlineMs: ANSWER_MS }))
      parts.push(content);
    const bytes = Buffer.concat(parts);
    if (createHash("sha256").update(bytes).digest("hex") !== sha256)
      throw new WhetstoneError("DATA_LOSS", `${path} of sha256:${digest} did not arrive as it is stored`);
    return bytes.toString("utf8");
  }
}
