// SPDX-License-Identifier: Apache-2.0
import { randomBytes } from "node:crypto";
import { access, readdir, readFile, rename, rm, rmdir, writeFile } from "node:fs/promises";
import { join } from "node:path";

import { WhetstoneError } from "@whetstone/core";
import { z } from "zod";

import { Dataset } from "./dataset.ts";
import { jsonlSource, rowSource, type Rows, type TaskSource } from "./sources.ts";
import { writeTasks } from "./task-file.ts";

export interface RegisterOptions {
  /** For people. */
  readonly description?: string;
}

const manifest = z.object({
  format: z.literal("whetstone.dataset/v1"),
  split: z.string(),
  rows: z.int(),
  bytes: z.int(),
  digest: z.string(),
  createdAt: z.string(),
  description: z.string().optional(),
});

/** A registered split. Digest: SHA-256 of its file. */
export type SplitInfo = z.infer<typeof manifest> & { readonly path: string };

export interface DatasetInfo {
  readonly name: string;
  readonly splits: readonly SplitInfo[];
}

const NAME = /^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$/;

/** The registry's folder: `<name>/<split>.jsonl`, and beside it `<split>.json`, written last. */
export class DatasetStore {
  readonly folder: string;

  constructor(folder: string) {
    this.folder = folder;
  }

  async register(
    name: string,
    split: string,
    data: Rows | Dataset,
    { description }: RegisterOptions = {},
  ): Promise<Dataset> {
    const paths = this.#paths(name, split);
    const dataset = data instanceof Dataset ? data : new Dataset(rowSource(data, name));
    const { rows, bytes, digest } = await writeTasks(dataset, join(this.folder, name), async () => {
      // A manifest never speaks of other tasks than those that are there, wherever this is interrupted.
      await rm(paths.manifest, { force: true });
      return paths.tasks;
    });
    const text: z.infer<typeof manifest> = {
      format: "whetstone.dataset/v1",
      split,
      rows,
      bytes,
      digest,
      createdAt: new Date().toISOString(),
      ...(description === undefined ? {} : { description }),
    };
    await replaceFile(paths.manifest, `${JSON.stringify(text, null, 2)}\n`);
    return this.load(name, split);
  }

  load(name: string, split: string): Dataset {
    const { tasks } = this.#paths(name, split);
    const read = jsonlSource(tasks, name);
    const source: TaskSource = {
      name,
      tasks: () => this.#orExplain(read.tasks(), name, split),
      digest: async () => (await this.#splitInfo(name, split))?.digest,
    };
    return new Dataset(source);
  }

  async list(): Promise<DatasetInfo[]> {
    const names = (await listFolder(this.folder)).filter((name) => NAME.test(name)).sort();
    const found = await Promise.all(names.map((name) => this.info(name)));
    return found.filter((info) => info !== undefined);
  }

  async info(name: string): Promise<DatasetInfo | undefined> {
    this.#paths(name, "any");
    const files = (await listFolder(join(this.folder, name))).filter((file) => file.endsWith(".json")).sort();
    const found = await Promise.all(files.map((file) => this.#splitInfo(name, file.slice(0, -".json".length))));
    const splits = found.filter((info) => info !== undefined);
    return splits.length === 0 ? undefined : { name, splits };
  }

  async exists(name: string, split?: string): Promise<boolean> {
    const info = await this.info(name);
    return info !== undefined && (split === undefined || info.splits.some((known) => known.split === split));
  }

  async remove(name: string, split?: string): Promise<boolean> {
    const info = await this.info(name);
    const gone = (info?.splits ?? []).filter((known) => split === undefined || known.split === split);
    for (const { split: each } of gone) {
      const { manifest: head, tasks } = this.#paths(name, each);
      await rm(head, { force: true });
      await rm(tasks, { force: true });
    }
    // Not empty: another split is there.
    await rmdir(join(this.folder, name)).catch(() => {});
    return gone.length > 0;
  }

  async #splitInfo(name: string, split: string): Promise<SplitInfo | undefined> {
    const paths = this.#paths(name, split);
    const text = await readFile(paths.manifest, "utf8").catch(() => undefined);
    return text === undefined ? undefined : { ...manifest.parse(JSON.parse(text)), path: paths.tasks };
  }

  async *#orExplain<T>(tasks: AsyncIterable<T>, name: string, split: string): AsyncGenerator<T> {
    const { tasks: path } = this.#paths(name, split);
    await access(path).catch(async (cause: unknown) => {
      throw new WhetstoneError("NOT_FOUND", await this.#whatThereIs(name, split), { cause });
    });
    yield* tasks;
  }

  async #whatThereIs(name: string, split: string): Promise<string> {
    const info = await this.info(name);
    const there = info
      ? `it has only ${info.splits.map((known) => known.split).join(", ")}`
      : `there is no such dataset in ${this.folder}`;
    return `dataset ${name}, split ${split}: ${there}; add it with \`whet datasets add ${name} <file> --split ${split}\``;
  }

  #paths(name: string, split: string): { manifest: string; tasks: string } {
    for (const [what, value] of [
      ["name", name],
      ["split", split],
    ] as const) {
      if (!NAME.test(value))
        throw new WhetstoneError(
          "INVALID_ARGUMENT",
          `a dataset's ${what} starts with a letter or digit and has letters, digits, dots, dashes and underscores, at most 100: not "${value}"`,
        );
    }
    return { manifest: join(this.folder, name, `${split}.json`), tasks: join(this.folder, name, `${split}.jsonl`) };
  }
}

async function listFolder(path: string): Promise<string[]> {
  return readdir(path).catch(() => []);
}

async function replaceFile(path: string, text: string): Promise<void> {
  const draft = `${path}.${randomBytes(6).toString("hex")}.draft`;
  await writeFile(draft, text, { flush: true });
  await rename(draft, path);
}
