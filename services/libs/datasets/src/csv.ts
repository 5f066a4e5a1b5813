// SPDX-License-Identifier: Apache-2.0
import { createReadStream } from "node:fs";

import { WhetstoneError } from "@whetstone/core";

import type { Row } from "./task.ts";

export interface CsvOptions {
  /** Default: ",". */
  readonly delimiter?: string;
  /** Columns that stay text whatever they hold. Default: none. */
  readonly text?: readonly string[];
}

type TextRow = Record<string, string>;

/**
 * Rows of a CSV file (RFC 4180, first line names the columns). A column is numbers when every cell that is not empty is written as
 * JavaScript writes that number, so "007" and "1.50" stay text; true and false likewise. Empty cells are left out.
 * @throws WhetstoneError INVALID_ARGUMENT that names file and line.
 */
export async function* csvRows(path: string, options: CsvOptions = {}): AsyncGenerator<Row> {
  const kinds = await columnKinds(path, options);
  for await (const row of textRows(path, options)) {
    const cells = Object.entries(row).filter(([, cell]) => cell !== "");
    yield Object.fromEntries(cells.map(([name, cell]) => [name, valueOf(cell, kinds.get(name))]));
  }
}

type Kind = "number" | "boolean" | "text";

async function columnKinds(path: string, options: CsvOptions): Promise<Map<string, Kind>> {
  const kinds = new Map<string, Kind>((options.text ?? []).map((name) => [name, "text"]));
  for await (const row of textRows(path, options)) {
    for (const [name, cell] of Object.entries(row)) {
      if (cell === "" || kinds.get(name) === "text") continue;
      const kind = kindOf(cell);
      kinds.set(name, kind === (kinds.get(name) ?? kind) ? kind : "text");
    }
  }
  return kinds;
}

function kindOf(cell: string): Kind {
  if (cell === "true" || cell === "false") return "boolean";
  return Number.isFinite(Number(cell)) && String(Number(cell)) === cell ? "number" : "text";
}

function valueOf(cell: string, kind: Kind | undefined): unknown {
  if (kind === "number") return Number(cell);
  return kind === "boolean" ? cell === "true" : cell;
}

/** The library is loaded where a CSV file is read: every module of users imports this SDK, few read CSV. */
async function* textRows(path: string, { delimiter = "," }: CsvOptions): AsyncGenerator<TextRow> {
  const { parse } = await import("csv-parse");
  const rows = parse({ bom: true, columns: true, delimiter, skip_empty_lines: true });
  const input = createReadStream(path);
  input.on("error", (error) => rows.destroy(error));
  try {
    for await (const row of input.pipe(rows)) yield row as TextRow;
  } catch (cause) {
    if ((cause as { code?: string }).code?.startsWith("CSV_") !== true) throw cause;
    throw new WhetstoneError("INVALID_ARGUMENT", `${path}: ${(cause as Error).message}`, { cause });
  } finally {
    input.destroy();
  }
}
