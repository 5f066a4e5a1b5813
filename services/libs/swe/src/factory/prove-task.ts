// SPDX-License-Identifier: Apache-2.0
import type { SandboxBackend } from "@whetstone/sandbox";
import { reverseEdits } from "../edits.ts";
import { gradeChange } from "../grading.ts";
import type { LibraryStore } from "../library-store.ts";
import { sourceChange } from "../source-change.ts";
import type { SweTask } from "../task.ts";
import { applyEdits } from "../edits.ts";
import { brokenSources } from "../workspace.ts";

export interface Proof {
  /** What the repair that undoes the bug is worth: 1 for a sound task. */
  readonly gold: number;
  /** What nothing is worth: 0 for a sound task. */
  readonly empty: number;
}

export interface ProofDeps {
  readonly backend: SandboxBackend;
  readonly libraries: LibraryStore;
}

/** Grades the repair and nothing at all as an episode is graded, each in a sandbox of its own. */
export async function proveTask(
  { backend, libraries }: ProofDeps,
  task: SweTask,
  signal?: AbortSignal,
): Promise<Proof> {
  const library = await libraries.open(task.library);
  const broken = brokenSources(library, task);
  const { suite } = library.record;
  const reward = async (after: ReadonlyMap<string, string>): Promise<number> => {
    const change = sourceChange(broken, after, suite);
    const { resolved } = await gradeChange(backend, library, task, { change, signal });
    return Number(resolved);
  };
  const gold = applyEdits(broken, reverseEdits(task.edits));
  return { gold: await reward(gold), empty: await reward(broken) };
}
