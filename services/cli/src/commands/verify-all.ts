// SPDX-License-Identifier: Apache-2.0
import { createRng } from "@whetstone/core";

import { EXIT } from "../cli-error.ts";
import type { CommandContext, CommonOptions, Outcome } from "./context.ts";

// What `whet tasks verify` does with tasks of whatever kind.

export interface VerifyFlags extends CommonOptions {
  readonly libraries?: string;
  readonly sample?: string;
  readonly seed?: string;
  readonly atOnce?: string;
  readonly docker?: boolean;
  readonly image?: string;
  readonly states?: string;
  readonly rewardKey?: string;
}

export interface VerifyCount {
  readonly sample: number;
  readonly seed: number;
  readonly atOnce: number;
}

/** What a task's own solution is worth, and nothing at all, or why that cannot be said. */
export type Verdict = { readonly gold: number; readonly empty: number } | { readonly error: string };

export interface Verifying<T> extends VerifyCount {
  readonly tasks: readonly { readonly id: string; readonly task: T }[];
  readonly isJson: boolean;
  readonly prove: (task: T) => Promise<Verdict>;
  /** What nothing may be worth. */
  readonly isNothing: (reward: number) => boolean;
}

export interface Verified<T> {
  readonly tasks: readonly T[];
  readonly unsound: readonly ({ readonly id: string } & Verdict)[];
}

/** Says for each task whether it is sound; one that is not makes the exit code 1. */
export async function verifyAll<T>(
  { tasks: all, sample, seed, atOnce, isJson, prove, isNothing }: Verifying<T>,
  { terminal }: CommandContext,
  outcome: Outcome,
): Promise<Verified<T>> {
  const tasks = createRng(seed).shuffle(all).slice(0, sample);
  const unsound: ({ id: string } & Verdict)[] = [];
  let done = 0;
  const left = tasks.values();
  const worker = async (): Promise<void> => {
    for (const { id, task } of left) {
      const verdict = await prove(task);
      const isSound = "gold" in verdict && verdict.gold === 1 && isNothing(verdict.empty);
      if (!isSound) unsound.push({ id, ...verdict });
      done += 1;
      const line = `${done} of ${tasks.length}: ${id}: ${isSound ? "sound" : JSON.stringify(verdict)}`;
      if (isJson) terminal.error(line);
      else terminal.line(line);
    }
  };
  await Promise.all(Array.from({ length: atOnce }, worker));
  if (unsound.length > 0) outcome.exitCode = EXIT.other;
  if (!isJson) terminal.line(`${tasks.length - unsound.length} of ${tasks.length} tasks are sound`);
  return { tasks: tasks.map(({ task }) => task), unsound };
}
