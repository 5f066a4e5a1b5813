// SPDX-License-Identifier: Apache-2.0
import { EpisodeError, type Info } from "@whetstone/sdk";

/** The truths of a task: a text, a number or a list of either, all of them right. @throws EpisodeError TASK */
export function truthsOf(task: Info, field: string): readonly string[] {
  const value = task[field];
  const values: readonly unknown[] = Array.isArray(value) ? value : [value];
  const texts = values.map((truth) => (typeof truth === "number" ? String(truth) : truth));
  const right =
    texts.length > 0 && texts.every((text): text is string => typeof text === "string" && text.trim() !== "");
  if (right) return texts;
  throw new EpisodeError("TASK", `${field}: the task needs a ground truth: a text, a number, or a list of them`);
}
