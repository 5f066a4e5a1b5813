// SPDX-License-Identifier: Apache-2.0
/** What of a file has to be fetched where another version of it is here. Pure. */
import type { Blocks, FileEntry, Manifest, TensorEntry } from "./manifest.ts";

/** A version that is whole: `blocks` are of its tensors. */
export interface Version {
  readonly manifest: Manifest;
  readonly blocks: Blocks;
}

/** Bytes of a file of the other version (`own`), or of the one that is published. */
export interface Segment {
  readonly from: "own" | "published";
  readonly file: string;
  readonly begin: number;
  readonly end: number;
}

/** Of a file of which more is new it is cheaper to fetch all in one request. */
const MOST_NEW = 0.5;

/** In the order of the file's bytes. Undefined: all of it is to be fetched. */
export function segmentsOf(file: FileEntry, published: Version, own: Version): Segment[] | undefined {
  const tensors = published.manifest.tensors.filter((tensor) => tensor.file === file.name);
  const before = new Map(own.manifest.tensors.map((tensor) => [tensor.name, tensor]));
  const segments: Segment[] = [];
  let at = 0;
  for (const tensor of tensors.sort((one, other) => one.offset - other.offset)) {
    // What lies between tensors is the header.
    add(segments, { from: "published", file: file.name, begin: at, end: tensor.offset });
    for (const segment of ofTensor(tensor, before.get(tensor.name), published.blocks, own.blocks))
      add(segments, segment);
    at = tensor.offset + tensor.size;
  }
  add(segments, { from: "published", file: file.name, begin: at, end: file.size });
  const fetched = segments.filter(({ from }) => from === "published");
  const bytes = fetched.reduce((sum, { begin, end }) => sum + end - begin, 0);
  return bytes > MOST_NEW * file.size ? undefined : segments;
}

function ofTensor(next: TensorEntry, own: TensorEntry | undefined, blocks: Blocks, ownBlocks: Blocks): Segment[] {
  const all: Segment = { from: "published", file: next.file, begin: next.offset, end: next.offset + next.size };
  if (own?.dtype !== next.dtype || own.size !== next.size) return [all];
  if (own.sha256 === next.sha256)
    return [{ from: "own", file: own.file, begin: own.offset, end: own.offset + own.size }];
  const [now, then] = [blocks.tensors[next.name] ?? [], ownBlocks.tensors[next.name] ?? []];
  const fits = blocks.bytes === ownBlocks.bytes && now.length === then.length;
  if (!fits || now.length !== Math.ceil(next.size / blocks.bytes)) return [all];
  return now.map((digest, index) => {
    const [from, { file, offset }] = digest === then[index] ? (["own", own] as const) : (["published", next] as const);
    const begin = index * blocks.bytes;
    return { from, file, begin: offset + begin, end: offset + Math.min(next.size, begin + blocks.bytes) };
  });
}

/** Joins neighbours, and leaves out what is empty. */
function add(segments: Segment[], next: Segment): void {
  if (next.end <= next.begin) return;
  const last = segments.at(-1);
  const isNeighbour = last?.from === next.from && last.file === next.file && last.end === next.begin;
  if (isNeighbour) segments[segments.length - 1] = { ...last, end: next.end };
  else segments.push(next);
}
