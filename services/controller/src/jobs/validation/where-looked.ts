// SPDX-License-Identifier: Apache-2.0
import { readdir } from "node:fs/promises";
import { join } from "node:path";
import type { Config } from "../../config.ts";

/** Named at most; there may be hundreds. */
const NAMED = 5;

/**
 * What to add to "does not exist". On a cluster the folder may well exist, on the machine of whoever submits: it is looked for
 * where the controller runs.
 */
export async function whereLooked(config: Pick<Config, "kube" | "dataPath"> | undefined): Promise<string> {
  if (!config?.kube) return "";
  const models = join(config.dataPath, "models");
  const found = (await readdir(models).catch((): string[] => [])).toSorted().slice(0, NAMED);
  const there = found.length > 0 ? `, such as ${found.map((name) => join(models, name)).join(", ")}` : "";
  const where = `it was looked for in the cluster, on the volume at ${config.dataPath}, and not on the machine that submits the job`;
  return `: ${where}. Push it (\`whet models push\`, \`whet datasets push\`; docs/artifacts.md), or name one that is there${there}`;
}
