// SPDX-License-Identifier: Apache-2.0
/** Copies of a folder of weights that an engine must refuse. All but one file are links, so that a large model can be copied. */
import { constants } from "node:fs";
import { copyFile, mkdir, mkdtemp, open, readdir, realpath, rm, stat, symlink, truncate } from "node:fs/promises";
import { basename, dirname, join } from "node:path";

/** In the order in which they are tried: vLLM by itself does not recover from a wrong shape. */
export const DAMAGES = ["a tensor is missing", "a file is cut off", "a shape is wrong"] as const;
export type Damage = (typeof DAMAGES)[number];

export interface DamagedCopies extends AsyncDisposable {
  /** The folder, in place of the one before. @param damage  undefined: none */
  make(damage: Damage | undefined): Promise<string>;
}

/** Why there are none. */
interface NoCopies extends AsyncDisposable {
  readonly reason: string;
}

/** A manifest would say that the files are not what was published: here the engine has to see it by itself. */
const LEFT_OUT = new Set(["manifest.json"]);

/** They lie beside the folder, where the engine can read them, too. */
export async function openDamagedCopies(folder: string): Promise<DamagedCopies | NoCopies> {
  let place: string | undefined;
  const remove = async (): Promise<void> => {
    if (place !== undefined) await rm(place, { recursive: true, force: true });
  };
  try {
    const source = await realpath(folder);
    const shard = await smallestShard(source);
    place = await mkdtemp(join(dirname(source), ".whet-check-"));
    const target = join(place, basename(source));
    const make = async (damage: Damage | undefined): Promise<string> => {
      await rm(target, { recursive: true, force: true });
      await copyFolder(source, target, shard);
      if (damage !== undefined) await DAMAGE[damage](join(target, shard));
      return target;
    };
    return { make, [Symbol.asyncDispose]: remove };
  } catch (error) {
    await remove();
    return { reason: `${folder} cannot be copied here: ${(error as Error).message}`, [Symbol.asyncDispose]: remove };
  }
}

async function smallestShard(folder: string): Promise<string> {
  const names = (await readdir(folder)).filter((name) => name.endsWith(".safetensors"));
  const sizes = await Promise.all(names.map(async (name) => ({ name, size: (await stat(join(folder, name))).size })));
  const [smallest] = sizes.sort((a, b) => a.size - b.size);
  if (smallest === undefined) throw new Error("it has no .safetensors file");
  return smallest.name;
}

async function copyFolder(source: string, target: string, shard: string): Promise<void> {
  await mkdir(target);
  for (const name of await readdir(source)) {
    if (LEFT_OUT.has(name)) continue;
    const [from, to] = [join(source, name), join(target, name)];
    if (name === shard) await copyFile(from, to, constants.COPYFILE_FICLONE);
    else await symlink(from, to);
  }
}

type Tensor = { shape: number[]; data_offsets: [number, number] };

const DAMAGE: Record<Damage, (file: string) => Promise<void>> = {
  "a tensor is missing": (file) =>
    editHeader(file, (tensors) => {
      const [name, { data_offsets }] = byEnd(tensors).at(-1) as [string, Tensor];
      delete tensors[name];
      return data_offsets[0];
    }),
  "a file is cut off": async (file) => truncate(file, Math.floor((await stat(file)).size / 2)),
  "a shape is wrong": (file) =>
    editHeader(file, (tensors) => {
      const found = Object.values(tensors).find(
        ({ shape: [rows, columns, more] }) => more === undefined && columns && rows !== columns,
      );
      if (found === undefined) throw new Error("every tensor of its smallest file is a square or a vector");
      found.shape.reverse();
      return undefined;
    }),
};

function byEnd(tensors: Record<string, Tensor>): [string, Tensor][] {
  return Object.entries(tensors).sort(([, a], [, b]) => a.data_offsets[1] - b.data_offsets[1]);
}

const LENGTH_BYTES = 8;

/** Writes a safetensors header that is no longer than before, in its place. @param edit  says where the data end now, if elsewhere */
async function editHeader(path: string, edit: (tensors: Record<string, Tensor>) => number | undefined): Promise<void> {
  await using file = await open(path, "r+");
  const { buffer: start } = await file.read(Buffer.alloc(LENGTH_BYTES), 0, LENGTH_BYTES, 0);
  const length = Number(start.readBigUInt64LE());
  const { buffer } = await file.read(Buffer.alloc(length), 0, length, LENGTH_BYTES);
  const { __metadata__: metadata, ...tensors } = JSON.parse(buffer.toString()) as Record<string, unknown>;
  const end = edit(tensors as Record<string, Tensor>);
  const header = JSON.stringify({ ...(metadata === undefined ? {} : { __metadata__: metadata }), ...tensors });
  await file.write(Buffer.from(header.padEnd(length)), 0, length, LENGTH_BYTES);
  if (end !== undefined) await file.truncate(LENGTH_BYTES + length + end);
}
