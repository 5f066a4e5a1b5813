// SPDX-License-Identifier: Apache-2.0
import { createHash } from "node:crypto";
import { createWriteStream } from "node:fs";
import { mkdir, readdir, rename, rm, stat, utimes } from "node:fs/promises";
import { dirname, join } from "node:path";
import { pipeline } from "node:stream/promises";
import { setTimeout as delay } from "node:timers/promises";
import { artifactFolder, artifactOfPath, WhetstoneError } from "@whetstone/core";
import type { ArtifactFile, ArtifactService } from "@whetstone/proto/artifacts/v1/artifacts";
import type { RpcClient } from "@whetstone/rpc";
import { broken } from "./manifest.ts";

/** Of the models that were used last, as our own engine keeps them. */
const KEPT = 4;
/** For a controller that is being started, or replaced. */
const PATIENCE_MS = 600_000;
const WAIT_MS = 1_000;
/** Of one file, however large. */
const FILE_MS = 600_000;
const DRAFT = ".draft";

export type ArtifactSource = Pick<RpcClient<typeof ArtifactService>, "getArtifact" | "readFile">;

/**
 * Models that were pushed, below a data folder that this pod shares with nobody: fetched from the controller by digest, once.
 * An artifact never changes, so one that is there is used.
 */
export class OwnModels {
  readonly #root: string;
  readonly #source: ArtifactSource;

  /** @param root  of the data folder, as the engine sees it, too */
  constructor(root: string, source: ArtifactSource) {
    this.#root = root;
    this.#source = source;
  }

  /**
   * The folder that a path names in whoever's data folder, with its files here; a path that is no artifact's as it is.
   * @throws WhetstoneError for one that is not there, or that nobody gave in ten minutes
   */
  async bring(path: string, signal: AbortSignal): Promise<string> {
    const artifact = artifactOfPath(path);
    if (!artifact) return path;
    const folder = dirname(artifactFolder(this.#root, artifact.digest));
    if (!(await isFolder(folder))) await this.#fetch(artifact.digest, folder, signal);
    const now = new Date();
    await utimes(folder, now, now);
    await this.#dropOld();
    return join(artifactFolder(this.#root, artifact.digest), artifact.file ?? "");
  }

  async #fetch(digest: string, folder: string, signal: AbortSignal): Promise<void> {
    const until = performance.now() + PATIENCE_MS;
    const draft = `${folder}${DRAFT}`;
    for (;;) {
      try {
        await rm(draft, { recursive: true, force: true }); // Of a process that was killed.
        const { artifact } = await this.#source.getArtifact({ of: { case: "digest", value: digest } }, { signal });
        for (const file of artifact?.files ?? []) await this.#bring(digest, file, join(draft, "files"), signal);
        return await rename(draft, folder);
      } catch (error) {
        const { code } = WhetstoneError.from(error);
        if (code !== "UNAVAILABLE" || performance.now() > until) throw error;
        await delay(WAIT_MS, undefined, { signal });
      }
    }
  }

  async #bring(digest: string, { path, sha256 }: ArtifactFile, folder: string, signal: AbortSignal): Promise<void> {
    const target = join(folder, path);
    await mkdir(dirname(target), { recursive: true });
    const hash = createHash("sha256");
    const parts = this.#source.readFile({ digest, path }, { signal, deadlineMs: FILE_MS });
    const contents = async function* (): AsyncGenerator<Uint8Array> {
      for await (const { content } of parts) {
        hash.update(content);
        yield content;
      }
    };
    await pipeline(contents, createWriteStream(target));
    if (hash.digest("hex") !== sha256) throw broken(`${path} of sha256:${digest} did not arrive as it is stored`);
  }

  async #dropOld(): Promise<void> {
    const all = dirname(dirname(artifactFolder(this.#root, "any")));
    const whole = (await readdir(all)).filter((name) => !name.endsWith(DRAFT)).map((name) => join(all, name));
    const aged = await Promise.all(whole.map(async (folder) => ({ folder, usedAt: (await stat(folder)).mtimeMs })));
    for (const { folder } of aged.sort((one, other) => other.usedAt - one.usedAt).slice(KEPT)) {
      // At once, so that no half of it is taken for whole.
      await rename(folder, `${folder}${DRAFT}`);
      await rm(`${folder}${DRAFT}`, { recursive: true, force: true });
    }
  }
}

async function isFolder(path: string): Promise<boolean> {
  return stat(path).then(
    (found) => found.isDirectory(),
    () => false,
  );
}
