// SPDX-License-Identifier: Apache-2.0
import { homedir } from "node:os";
import { join, resolve } from "node:path";

/** Where datasets are kept: WHETSTONE_DATASETS, else ~/.whetstone/datasets. */
export function datasetsFolder(environment: NodeJS.ProcessEnv = process.env): string {
  const named = environment["WHETSTONE_DATASETS"];
  return named === undefined || named === "" ? join(homedir(), ".whetstone/datasets") : resolve(named);
}
