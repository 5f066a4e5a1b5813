// SPDX-License-Identifier: Apache-2.0
/** Writes episodes to files, as they come: nothing is held but one row group. */
import { createWriteStream, rmSync } from "node:fs";
import { once } from "node:events";
import { finished } from "node:stream/promises";
import { toJson } from "@bufbuild/protobuf";
import { EpisodeSchema } from "@whetstone/proto/types/v1/types";
import type { SchemaElement } from "hyparquet";
import { fileWriter, ParquetWriter } from "hyparquet-writer";

import type { Column, ExportedEpisode } from "./episode-rows.ts";
import { COLUMNS, turnsOf } from "./episode-rows.ts";

export interface EpisodeFile {
  add(exported: ExportedEpisode): Promise<void>;
  /** The file is whole only then. */
  finish(): Promise<void>;
  /** Removes what there is of the file. */
  discard(): void;
}

/** One Episode a line, in protobuf's JSON form, with `trainedInStep` beside its fields. */
export async function openJsonl(path: string): Promise<EpisodeFile> {
  const stream = createWriteStream(path);
  await once(stream, "open");
  let failure: Error | undefined;
  stream.on("error", (error) => (failure ??= error)); // Told by the next call; after a discard there is none.
  return {
    async add({ episode, trainedInStep }) {
      if (failure) throw failure;
      const line = {
        ...(toJson(EpisodeSchema, episode) as object),
        ...(trainedInStep !== undefined && { trainedInStep }),
      };
      if (!stream.write(`${JSON.stringify(line)}\n`)) await once(stream, "drain");
    },
    async finish() {
      stream.end();
      await finished(stream);
    },
    discard() {
      stream.destroy();
      rmSync(path, { force: true });
    },
  };
}

const ROWS_A_GROUP = 4096;

/** One row a turn, see docs/records.md. */
export function openParquet(path: string): EpisodeFile {
  const writer = new ParquetWriter({ writer: fileWriter(path), schema: schemaOf(COLUMNS) });
  let cells: unknown[][] = COLUMNS.map(() => []);
  const flush = async (): Promise<void> => {
    const columnData = COLUMNS.map(({ name }, i) => ({ name, data: cells[i] ?? [] }));
    cells = COLUMNS.map(() => []);
    await writer.write({ columnData });
  };
  return {
    async add(exported) {
      for (const turn of turnsOf(exported)) COLUMNS.forEach(({ cell }, i) => cells[i]?.push(cell(turn) ?? null));
      if ((cells[0]?.length ?? 0) >= ROWS_A_GROUP) await flush();
    },
    async finish() {
      await flush();
      await writer.finish();
    },
    discard() {
      rmSync(path, { force: true });
    },
  };
}

const PRIMITIVE = {
  text: { type: "BYTE_ARRAY", converted_type: "UTF8" },
  integer: { type: "INT32" },
  number: { type: "DOUBLE" },
  boolean: { type: "BOOLEAN" },
  integers: { type: "INT32" },
  numbers: { type: "DOUBLE" },
} as const;

function schemaOf(columns: readonly Column[]): SchemaElement[] {
  return [{ name: "root", num_children: columns.length }, ...columns.flatMap(elementsOf)];
}

/** Lists are of three levels. Source: Apache Parquet, LogicalTypes.md, "Lists". */
function elementsOf({ name, type }: Column): SchemaElement[] {
  if (type !== "integers" && type !== "numbers") return [{ name, repetition_type: "OPTIONAL", ...PRIMITIVE[type] }];
  return [
    { name, converted_type: "LIST", repetition_type: "OPTIONAL", num_children: 1 },
    { name: "list", repetition_type: "REPEATED", num_children: 1 },
    { name: "element", repetition_type: "REQUIRED", ...PRIMITIVE[type] },
  ];
}
