// SPDX-License-Identifier: Apache-2.0
export type { CsvOptions } from "./csv.ts";
export { type EvaluatedTasks, passRateBetween } from "./curation.ts";
export { type CursorOptions, type CursorState, DatasetCursor } from "./cursor.ts";
export { Dataset } from "./dataset.ts";
export { datasetsFolder } from "./folder.ts";
export type { ChangeTask, KeepTask } from "./operations.ts";
export { DatasetRegistry, DEFAULT_SPLIT } from "./registry.ts";
export type { Rows } from "./sources.ts";
export { type DatasetInfo, DatasetStore, type RegisterOptions, type SplitInfo } from "./store.ts";
export { type DatasetTask, type RecordedCall, type Row, type RowPlace, taskLine } from "./task.ts";
