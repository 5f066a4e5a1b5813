// SPDX-License-Identifier: Apache-2.0
import type { Dataset } from "./dataset.ts";
import { datasetsFolder } from "./folder.ts";
import { type DatasetInfo, DatasetStore, type RegisterOptions, type SplitInfo } from "./store.ts";
import type { Rows } from "./sources.ts";

/** rLLM's default, too. */
export const DEFAULT_SPLIT = "default";

const store = (): DatasetStore => new DatasetStore(datasetsFolder());

/** Named datasets of this machine, in WHETSTONE_DATASETS (default ~/.whetstone/datasets): one JSONL file of tasks a split. */
export const DatasetRegistry = {
  /**
   * Keeps the tasks under a name, in place of what was there, all or nothing.
   * @param data  Rows or a dataset; see `taskOfRow` for how rows become tasks.
   * @throws WhetstoneError INVALID_ARGUMENT for bad names, rows that are no tasks, two tasks of one id, or no tasks.
   */
  register: async (
    name: string,
    data: Rows | Dataset,
    split = DEFAULT_SPLIT,
    options: RegisterOptions = {},
  ): Promise<Dataset> => store().register(name, split, data, options),
  /** Reads nothing yet, so that a module may call it anywhere. @throws WhetstoneError INVALID_ARGUMENT for bad names. */
  load: (name: string, split = DEFAULT_SPLIT): Dataset => store().load(name, split),
  /** All datasets, by name. */
  list: async (): Promise<DatasetInfo[]> => store().list(),
  /** Undefined: there is none of this name. */
  info: async (name: string): Promise<DatasetInfo | undefined> => store().info(name),
  splits: async (name: string): Promise<string[]> =>
    ((await store().info(name))?.splits ?? []).map(({ split }: SplitInfo) => split),
  exists: async (name: string, split?: string): Promise<boolean> => store().exists(name, split),
  /** One split, or all. @returns whether there was one. Jobs that were submitted keep their tasks. */
  remove: async (name: string, split?: string): Promise<boolean> => store().remove(name, split),
} as const;
