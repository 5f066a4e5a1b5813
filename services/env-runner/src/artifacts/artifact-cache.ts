// SPDX-License-Identifier: Apache-2.0
import { createHash, randomBytes } from "node:crypto";
import { existsSync, renameSync } from "node:fs";
import { mkdir, open, readdir, rename, rm, stat } from "node:fs/promises";
import { dirname, join } from "node:path";
import type { JsonObject } from "@bufbuild/protobuf";
import { ConfigError, mapArtifacts, parseArtifact, WhetstoneError } from "@whetstone/core";
import type { ArtifactFile, ArtifactService } from "@whetstone/proto/artifacts/v1/artifacts";
import type { RpcClient } from "@whetstone/rpc";

// An env-runner has no volume. What a session's arguments name by digest is fetched from the controller once, and kept. C1: a
// file has its place only when its digest is right. C2: what an open session has is never evicted.

const EVICTED = "evicted-";

export type ArtifactSource = Pick<RpcClient<typeof ArtifactService>, "getArtifact" | "readFile">;

export interface CacheOptions {
  readonly folder: string;
  readonly maxBytes: number;
  /** Undefined: this env-runner was told of no controller. */
  readonly source: ArtifactSource | undefined;
}

/** Arguments with paths in place of artifacts; disposing lets the files go. */
export interface HeldArtifacts extends Disposable {
  readonly args: JsonObject;
}

interface Entry {
  /** Sessions that have it. */
  holders: number;
  usedAt: number;
  bytes: number;
}

export function namesArtifacts(args: JsonObject): boolean {
  let found = false;
  mapArtifacts(args, (text) => ((found = true), text));
  return found;
}

export class ArtifactCache {
  readonly #options: CacheOptions;
  readonly #entries = new Map<string, Entry>();
  /** Fetches that go on, by place: sessions that begin together wait for the same. */
  readonly #fetching = new Map<string, Promise<void>>();
  #opened: Promise<void> | undefined;
  #clock = 0;

  constructor(options: CacheOptions) {
    this.#options = options;
  }

  /** @throws ConfigError for a reference without a digest, or of a file that is not there */
  async use(args: JsonObject, signal: AbortSignal): Promise<HeldArtifacts> {
    await (this.#opened ??= this.#open());
    const held = new Set<string>();
    const release = (): void => held.forEach((digest) => this.#release(digest));
    const places = new Map<string, string>();
    try {
      for (const [text, path] of named(args)) {
        const { digest, file } = parseArtifact(text);
        if (digest === undefined) throw wrong(path, `names no digest, which only a job's own arguments may leave out`);
        if (!held.has(digest)) this.#hold(digest);
        held.add(digest);
        places.set(text, await this.#materialise(digest, file, path, signal));
      }
    } catch (error) {
      release();
      throw error;
    }
    return { args: mapArtifacts(args, (text) => places.get(text) ?? text), [Symbol.dispose]: release };
  }

  async #materialise(digest: string, file: string | undefined, path: string, signal: AbortSignal): Promise<string> {
    const folder = this.#folderOf(digest);
    const wanted = file === undefined ? undefined : join(folder, file);
    if (wanted !== undefined && (await isFile(wanted))) return wanted;
    const { artifact } = await this.#source().getArtifact({ of: { case: "digest", value: digest } }, { signal });
    const isWanted = (one: string): boolean => file === undefined || one === file || one.startsWith(`${file}/`);
    const files = (artifact?.files ?? []).filter((one) => isWanted(one.path));
    if (files.length === 0) throw wrong(path, `sha256:${digest} has no "${file}"`);
    for (const one of files) await this.#fetch(digest, one, signal);
    return wanted ?? folder;
  }

  async #fetch(digest: string, file: ArtifactFile, signal: AbortSignal): Promise<void> {
    const place = join(this.#folderOf(digest), file.path);
    if (await isFile(place)) return;
    const going = this.#fetching.get(place);
    if (going) return going;
    // Not this session's signal: others may wait for the same by then.
    const fetched = this.#download(digest, file, place).finally(() => this.#fetching.delete(place));
    this.#fetching.set(place, fetched);
    signal.throwIfAborted();
    return fetched;
  }

  async #download(digest: string, file: ArtifactFile, place: string): Promise<void> {
    const bytes = Number(file.size);
    this.#reserve(digest, bytes, file.path);
    await mkdir(dirname(place), { recursive: true });
    const draft = `${place}.${randomBytes(6).toString("hex")}.draft`;
    const hash = createHash("sha256");
    try {
      await using target = await open(draft, "wx");
      for await (const { content } of this.#source().readFile({ digest, path: file.path })) {
        hash.update(content);
        await target.writeFile(content);
      }
      if (hash.digest("hex") !== file.sha256)
        throw new WhetstoneError("DATA_LOSS", `${file.path} of sha256:${digest} did not arrive as it is stored`);
      await rename(draft, place);
    } catch (error) {
      this.#reserve(digest, -bytes, file.path);
      throw error;
    } finally {
      await rm(draft, { force: true });
    }
  }

  /** @throws RESOURCE_EXHAUSTED when open sessions have too much of it */
  #reserve(digest: string, bytes: number, what: string): void {
    const used = (): number => [...this.#entries.values()].reduce((sum, entry) => sum + entry.bytes, 0);
    const idle = [...this.#entries]
      .filter(([, { holders }]) => holders === 0)
      .sort(([, a], [, b]) => a.usedAt - b.usedAt);
    for (const [unused] of idle) {
      if (used() + bytes <= this.#options.maxBytes) break;
      this.#evict(unused);
    }
    const entry = this.#entries.get(digest);
    if (entry && used() + bytes <= this.#options.maxBytes) {
      entry.bytes += bytes;
      return;
    }
    const reason = `"${what}" has ${bytes} bytes, and ${used()} of ${this.#options.maxBytes} are taken by open sessions`;
    throw new WhetstoneError("RESOURCE_EXHAUSTED", `${reason}: raise WHETSTONE_ARTIFACT_CACHE_BYTES`);
  }

  /** Gone at once (C2: nobody can take it up in between), deleted when there is time. */
  #evict(digest: string): void {
    this.#entries.delete(digest);
    const gone = join(this.#options.folder, `${EVICTED}${randomBytes(6).toString("hex")}`);
    if (!existsSync(this.#folderOf(digest))) return;
    renameSync(this.#folderOf(digest), gone);
    rm(gone, { recursive: true, force: true }).catch(() => undefined); // The next start deletes what is left.
  }

  #hold(digest: string): void {
    const entry = this.#entries.get(digest) ?? { holders: 0, usedAt: 0, bytes: 0 };
    entry.holders += 1;
    entry.usedAt = ++this.#clock;
    this.#entries.set(digest, entry);
  }

  #release(digest: string): void {
    const entry = this.#entries.get(digest);
    if (entry) entry.holders -= 1;
  }

  /** What an earlier process left: whole files count, drafts go. */
  async #open(): Promise<void> {
    const { folder } = this.#options;
    await mkdir(folder, { recursive: true });
    for (const digest of await readdir(folder)) {
      if (digest.startsWith(EVICTED)) {
        await rm(join(folder, digest), { recursive: true, force: true });
        continue;
      }
      const below = await readdir(join(folder, digest), { recursive: true, withFileTypes: true }).catch(() => []);
      let bytes = 0;
      for (const entry of below) {
        const place = join(entry.parentPath, entry.name);
        if (entry.name.endsWith(".draft")) await rm(place, { force: true });
        else if (entry.isFile()) bytes += (await stat(place)).size;
      }
      this.#entries.set(digest, { holders: 0, usedAt: 0, bytes });
    }
  }

  #folderOf(digest: string): string {
    return join(this.#options.folder, digest);
  }

  #source(): ArtifactSource {
    const { source } = this.#options;
    if (source) return source;
    const reason = "this env-runner was started without WHETSTONE_ARTIFACT_ADDRESS, the controller that has artifacts";
    throw new WhetstoneError("FAILED_PRECONDITION", reason);
  }
}

function named(args: JsonObject): [text: string, path: string][] {
  const found: [string, string][] = [];
  mapArtifacts(args, (text, path) => (found.push([text, path]), text));
  return found;
}

function wrong(path: string, reason: string): ConfigError {
  return new ConfigError([{ path, reason }], { code: "TASK_INVALID" });
}

async function isFile(path: string): Promise<boolean> {
  return stat(path).then(
    (stats) => stats.isFile(),
    () => false,
  );
}
