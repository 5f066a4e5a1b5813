// SPDX-License-Identifier: Apache-2.0
import { WhetstoneError } from "@whetstone/core";

import type { Row } from "./task.ts";

const ROWS_AT_ONCE = 4096;

/**
 * Rows of a Parquet file, read a few thousand at a time. Columns of lists and structs become arrays and objects.
 * @throws WhetstoneError INVALID_ARGUMENT when it is not a Parquet file.
 */
export async function* parquetRows(path: string): AsyncGenerator<Row> {
  const { asyncBufferFromFile, parquetMetadataAsync, parquetReadObjects } = await import("hyparquet");
  const { compressors } = await import("hyparquet-compressors");
  const file = await asyncBufferFromFile(path);
  const metadata = await parquetMetadataAsync(file).catch((cause: unknown) => {
    throw new WhetstoneError("INVALID_ARGUMENT", `${path}: ${(cause as Error).message}`, { cause });
  });
  const total = Number(metadata.num_rows);
  for (let start = 0; start < total; start += ROWS_AT_ONCE) {
    const range = { rowStart: start, rowEnd: Math.min(total, start + ROWS_AT_ONCE) };
    yield* (await parquetReadObjects({ file, metadata, compressors, ...range })) as Row[];
  }
}
