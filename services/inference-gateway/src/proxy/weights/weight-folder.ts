// SPDX-License-Identifier: Apache-2.0
// vLLM takes what fits of a folder and says nothing of the rest: with a tensor missing it answers 200 and serves a mixture,
// with a wrong shape it is broken for good. So a folder is read here before vLLM is told to load it.
import { createHash } from "node:crypto";
import { createReadStream } from "node:fs";
import { open, readFile, stat } from "node:fs/promises";
import { basename, join } from "node:path";
import { broken, type FileEntry, MANIFEST, parseJson, parseManifest } from "./manifest.ts";

/** What weights have to be to fit a model: shapes of its tensors by name. */
export interface Shapes {
  readonly tensors: ReadonlyMap<string, string>;
  /** lm_head.weight is a second copy of the embedding, and may be left out. */
  readonly tied: boolean;
}

const SINGLE = "model.safetensors";
const INDEX = "model.safetensors.index.json";
const CONFIG = "config.json";
/** A header is small; anything else at its place is no safetensors file. */
const MAX_HEADER = 100 << 20;

/** Of the model that an engine was started with. @throws WhetstoneError INVALID_ARGUMENT when the folder is none. */
export async function readShapes(folder: string): Promise<Shapes> {
  const { tie_word_embeddings: tied } = parseJson(CONFIG, (await textOf(join(folder, CONFIG))) ?? "{}") as Config;
  return { tensors: await tensorsOf(folder, tied === true), tied: tied === true };
}

/** @throws WhetstoneError INVALID_ARGUMENT that names the first thing in the folder that does not fit the served model. */
export async function checkTensors(folder: string, { tensors: served, tied }: Shapes): Promise<void> {
  const found = await tensorsOf(folder, tied);
  for (const [name, shape] of served)
    if (found.get(name) !== shape)
      throw broken(`${name} ${found.has(name) ? `has shape ${found.get(name)}, expected ${shape}` : "is missing"}`);
  for (const name of found.keys()) if (!served.has(name)) throw broken(`${name} is no tensor of the served model`);
}

/** Without what need not be there: old checkpoints carry rotary tables. */
async function tensorsOf(folder: string, tied: boolean): Promise<Map<string, string>> {
  const tensors = new Map<string, string>();
  for (const file of await weightFiles(folder))
    for (const [name, shape] of await headerOf(join(folder, file)))
      if (!(tied && name === "lm_head.weight") && !name.endsWith("rotary_emb.inv_freq")) tensors.set(name, shape);
  if (tensors.size === 0) throw broken(`${folder} holds no tensors`);
  return tensors;
}

async function weightFiles(folder: string): Promise<string[]> {
  if ((await sizeOf(join(folder, SINGLE))) !== undefined) return [SINGLE];
  const text = await textOf(join(folder, INDEX));
  if (text === undefined) throw broken(`${folder} has neither ${SINGLE} nor ${INDEX}`);
  const { weight_map: map = {} } = parseJson(INDEX, text) as { weight_map?: Record<string, string> };
  return [...new Set(Object.values(map))].map(plainName);
}

interface Config {
  readonly tie_word_embeddings?: boolean;
}

interface Header {
  readonly [tensor: string]: { readonly shape?: readonly number[]; readonly data_offsets?: readonly [number, number] };
}

async function headerOf(path: string): Promise<[string, string][]> {
  const size = await sizeOf(path);
  if (size === undefined) throw broken(`${basename(path)} is missing`);
  await using file = await open(path);
  const start = await file.read(Buffer.alloc(8), 0, 8, 0);
  const length = start.bytesRead === 8 ? Number(start.buffer.readBigUInt64LE()) : MAX_HEADER;
  if (8 + length > Math.min(size, MAX_HEADER)) throw broken(`${basename(path)} is truncated or no safetensors file`);
  const { buffer } = await file.read(Buffer.alloc(length), 0, length, 8);
  const { __metadata__: _text, ...tensors } = parseJson(basename(path), buffer.toString()) as Header;
  const end = Math.max(0, ...Object.values(tensors).map(({ data_offsets: offsets }) => offsets?.[1] ?? 0));
  if (8 + length + end !== size) throw broken(`${basename(path)} is truncated: ${size} of ${8 + length + end} bytes`);
  return Object.entries(tensors).map(([name, { shape }]) => [name, JSON.stringify(shape)]);
}

/** @throws WhetstoneError INVALID_ARGUMENT unless every file is what was published (I7), where the folder says what that is. */
export async function verifyFiles(folder: string): Promise<void> {
  for (const { name, size, sha256 } of await listed(folder)) {
    const path = join(folder, name);
    if ((await sizeOf(path)) !== size) throw broken(`${name} is not ${size} bytes long as ${MANIFEST} says`);
    if ((await digestOf(path)) !== sha256) throw broken(`${name} differs from the digest in ${MANIFEST}`);
  }
}

/** What shows that somebody wrote to a file of the folder since. */
export async function stampsOf(folder: string): Promise<string> {
  const names = (await listed(folder)).map(({ name }) => name);
  const all = [MANIFEST, CONFIG, SINGLE, INDEX, ...(await weightFiles(folder)), ...names];
  const stamps = [...new Set(all)].map(async (name) => {
    const found = await stat(join(folder, name), { bigint: true }).catch(absent);
    return found ? `${name} ${found.ino} ${found.size} ${found.mtimeNs} ${found.ctimeNs}` : name;
  });
  return (await Promise.all(stamps)).join("\n");
}

async function listed(folder: string): Promise<FileEntry[]> {
  const text = await textOf(join(folder, MANIFEST));
  return text === undefined ? [] : parseManifest(text).files;
}

export async function digestOf(path: string): Promise<string> {
  const hash = createHash("sha256");
  for await (const chunk of createReadStream(path, { highWaterMark: 1 << 20 })) hash.update(chunk as Buffer);
  return hash.digest("hex");
}

function plainName(name: string): string {
  if (basename(name) !== name) throw broken(`${JSON.stringify(name)} is not a plain file name`);
  return name;
}

async function sizeOf(path: string): Promise<number | undefined> {
  const found = await stat(path).catch(absent);
  return found?.isFile() ? found.size : undefined;
}

function textOf(path: string): Promise<string | undefined> {
  return readFile(path, "utf8").catch(absent);
}

function absent(error: unknown): undefined {
  if (["ENOENT", "ENOTDIR"].includes(String((error as NodeJS.ErrnoException).code))) return undefined;
  throw error;
}
