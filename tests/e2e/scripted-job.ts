// SPDX-License-Identifier: Apache-2.0
// Jobs whose policy is scripted, submitted to the cluster: their tasks reach it as artifacts.
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { scriptedJob, type ScriptedUse } from "../support/scripted-episodes.ts";
import { ROOT } from "./cluster.ts";
import { wantedSandbox } from "./own-sandbox.ts";
import { MODEL } from "./training.ts";
import { whet } from "./whet.ts";

/** A folder inside the repository, so that the SDK is found as it is in a project that has it installed. */
export async function inFolder(work: (folder: string) => Promise<void> | void): Promise<void> {
  mkdirSync(join(ROOT, ".whetstone"), { recursive: true });
  const folder = mkdtempSync(join(ROOT, ".whetstone/e2e-"));
  try {
    await work(folder);
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

/** Of a policy that knows every answer. */
export function submitScripted(
  folder: string,
  use: ScriptedUse,
  job: { readonly name: string; readonly steps: number },
): void {
  const { name, steps } = job;
  const document = scriptedJob(folder, use, { name, model: MODEL, policy: "oracle", steps, groups: 1 });
  push("datasets", name, document.train.jsonl);
  const file = join(folder, `${name}.json`);
  const module = { ...document.module, sandbox: wantedSandbox() };
  const train = { jsonl: `artifact://datasets/${name}`, repeat: 1000 };
  writeFileSync(file, JSON.stringify({ ...document, module, train }));
  const { status, output } = whet("train", file, "--no-watch");
  if (status !== 0) throw new Error(`whet train ended with ${status}: ${output}`);
}

export function push(kind: "tasks" | "datasets", name: string, path: string): void {
  const { status, output } = whet(kind, "push", name, path, "--json");
  if (status !== 0) throw new Error(`whet ${kind} push ended with ${status}: ${output}`);
}
