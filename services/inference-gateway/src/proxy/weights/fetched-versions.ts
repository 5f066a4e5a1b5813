// SPDX-License-Identifier: Apache-2.0
import { createHash } from "node:crypto";
import { createReadStream, createWriteStream } from "node:fs";
import { mkdir, readdir, readFile, rename, rm, stat, statfs, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { pipeline } from "node:stream/promises";
import { type Segment, segmentsOf, type Version } from "./changes.ts";
import { BLOCKS, broken, type FileEntry, MANIFEST, parseBlocks, parseManifest } from "./manifest.ts";
import type { Transfer } from "./transfer.ts";
import { digestOf, verifyFiles } from "./weight-folder.ts";

/** More than the largest manifest: 200 bytes a tensor, 33 a block of 1 MiB. */
const MOST_SMALL = 256 << 20;
const FULL: ReadonlySet<unknown> = new Set(["ENOSPC", "EDQUOT"]);

interface Kept extends Version {
  readonly folder: string;
}

/**
 * Versions that were fetched, a folder each, named by the digest of its manifest. There is the newest one, and while another
 * is fetched that, too. Nothing in it is believed: whoever takes a version checks its files.
 */
export class FetchedVersions {
  readonly #folder: string;

  constructor(folder: string) {
    this.#folder = folder;
  }

  /**
   * The folder of the version, every file as its manifest says. Of each file only what another version does not have is
   * fetched; what came of one that failed stays, and is not fetched again.
   * @throws WhetstoneError that names the file and what is wrong
   */
  async fetch(transfer: Transfer, manifestDigest: string): Promise<string> {
    try {
      return await this.#fetch(transfer, manifestDigest);
    } catch (error) {
      if (!FULL.has((error as NodeJS.ErrnoException).code)) throw error;
      const { bavail, bsize } = await statfs(this.#folder);
      const free = ((bavail * bsize) / 2 ** 20).toFixed(1);
      const reason = `No space left on device: ${this.#folder}, where fetched weights are kept, has ${free} MiB free`;
      throw broken(`${reason}; free some; it is tried again`, error);
    }
  }

  async #fetch(transfer: Transfer, manifestDigest: string): Promise<string> {
    const folder = join(this.#folder, manifestDigest);
    if (await isWhole(folder)) return folder;
    await rm(folder, { recursive: true, force: true });
    const [part, own] = [`${folder}.part`, await this.#newestBut(folder)];
    await mkdir(part, { recursive: true });
    const text = await transfer.small(MANIFEST, MOST_SMALL);
    const digest = createHash("sha256").update(text).digest("hex");
    if (digest !== manifestDigest)
      throw broken(`${MANIFEST}: ${transfer.url} has digest ${digest}, expected ${manifestDigest}`);
    const manifest = parseManifest(text.toString());
    const blocksFile = manifest.files.find(({ name }) => name === BLOCKS);
    if (blocksFile) await bring(blocksFile, { transfer, part });
    const blocks = blocksFile && parseBlocks(await readFile(join(part, BLOCKS), "utf8"));
    const published = blocks && { manifest, blocks };
    for (const file of manifest.files)
      await bring(file, { transfer, part, ...(own && { own }), ...(published && { published }) });
    await writeFile(join(part, MANIFEST), text);
    await rename(part, folder);
    return folder;
  }

  /** The newest version that is here, and can be compared; the others go, and what was begun of them. */
  async #newestBut(wanted: string): Promise<Kept | undefined> {
    await mkdir(this.#folder, { recursive: true });
    const names = (await readdir(this.#folder)).filter((name) => /^[0-9a-f]{64}(\.part)?$/.test(name));
    const kept = await Promise.all(names.map((name) => keptIn(join(this.#folder, name))));
    const [newest] = kept.filter((one) => one !== undefined).sort((one, other) => other.writtenAt - one.writtenAt);
    for (const folder of names.map((name) => join(this.#folder, name)))
      if (folder !== newest?.folder && folder !== `${wanted}.part`) await rm(folder, { recursive: true, force: true });
    return newest;
  }
}

async function isWhole(folder: string): Promise<boolean> {
  return (
    (await keptIn(folder)) !== undefined &&
    (await verifyFiles(folder).then(
      () => true,
      () => false,
    ))
  );
}

async function keptIn(folder: string): Promise<(Kept & { writtenAt: number }) | undefined> {
  if (folder.endsWith(".part")) return undefined;
  try {
    const [manifest, blocks] = await Promise.all(
      [MANIFEST, BLOCKS].map((name) => readFile(join(folder, name), "utf8")),
    );
    const { mtimeMs } = await stat(join(folder, MANIFEST));
    return { folder, manifest: parseManifest(manifest ?? ""), blocks: parseBlocks(blocks ?? ""), writtenAt: mtimeMs };
  } catch {
    return undefined;
  }
}

interface Bringing {
  readonly transfer: Transfer;
  /** Where the files of the version gather. */
  readonly part: string;
  readonly published?: Version;
  readonly own?: Kept;
}

/** One file of a version: from what is here as far as that goes. */
async function bring(file: FileEntry, { transfer, part, published, own }: Bringing): Promise<void> {
  const target = join(part, file.name);
  await mkdir(dirname(target), { recursive: true });
  if ((await digestOf(target).catch(absent)) === file.sha256) return;
  await rm(target, { force: true });
  const all: Segment[] = [{ from: "published", file: file.name, begin: 0, end: file.size }];
  const some = own && published && segmentsOf(file, published, own);
  for (const segments of some ? [some, all] : [all]) {
    const bytes = bytesOf(segments, transfer, own?.folder ?? "");
    // Of a file that another process removed nothing can be taken; all of it is fetched then.
    const digest = await write(`${target}.new`, bytes).catch(absent);
    if (digest === file.sha256) return rename(`${target}.new`, target);
  }
  await rm(`${target}.new`, { force: true });
  const where = `${transfer.url}/${file.name}`;
  throw broken(`${file.name}: content differs from the digest in ${MANIFEST}; ${where} is damaged`);
}

async function* bytesOf(segments: readonly Segment[], transfer: Transfer, own: string): AsyncGenerator<Uint8Array> {
  for (const { from, file, begin, end } of segments) {
    const options = { start: begin, end: end - 1, highWaterMark: 1 << 20 };
    yield* from === "published" ? transfer.read(file, begin, end) : createReadStream(join(own, file), options);
  }
}

/** @returns the SHA-256 of what was written */
async function write(path: string, bytes: AsyncIterable<Uint8Array>): Promise<string> {
  const hash = createHash("sha256");
  const hashed = async function* (): AsyncGenerator<Uint8Array> {
    for await (const chunk of bytes) {
      hash.update(chunk);
      yield chunk;
    }
  };
  await pipeline(hashed, createWriteStream(path, { highWaterMark: 1 << 20 }));
  return hash.digest("hex");
}

function absent(error: unknown): undefined {
  if ((error as NodeJS.ErrnoException).code !== "ENOENT") throw error;
}
