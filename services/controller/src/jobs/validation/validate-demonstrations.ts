// SPDX-License-Identifier: Apache-2.0
import { equals } from "@bufbuild/protobuf";
import { inTurns } from "@whetstone/core";
import { type ChatMessage, ChatMessageSchema, type Task } from "@whetstone/proto/types/v1/types";
import type { TaskList } from "../../datasets/dataset.ts";
import type { Violation } from "./violation.ts";

/**
 * What SFT or DPO cannot learn from: a demonstration that no assistant speaks in, a pair of different prompts.
 * @param path  of the dataset in the job
 */
export async function checkDemonstrations(tasks: TaskList, path: string, isOfPairs: boolean): Promise<Violation[]> {
  for await (const i of inTurns(Array(tasks.length).keys())) {
    const task = await tasks.at(i);
    const fault = isOfPairs ? faultOfPair(task) : faultOf(task, "demonstration");
    if (fault !== "") return [{ path, reason: `task ${i + 1} (${task.id}): ${fault}`, curable: true }];
  }
  return [];
}

function faultOf(task: Task, field: "demonstration" | "chosen" | "rejected"): string {
  const isAnswered = task[field].some(({ role }) => role === "assistant");
  return isAnswered ? "" : `${field}: has no assistant message, which is what is learned`;
}

function faultOfPair(task: Task): string {
  const fault = faultOf(task, "chosen") || faultOf(task, "rejected");
  if (fault !== "") return fault;
  const [chosen, rejected] = [promptOf(task.chosen), promptOf(task.rejected)];
  const at = Array(Math.max(chosen.length, rejected.length))
    .keys()
    .find((i) => !isSame(chosen[i], rejected[i]));
  if (at === undefined) return "";
  return `rejected[${at}]: is not chosen[${at}]: all before the first assistant message is the prompt, and has to be the same`;
}

function promptOf(messages: readonly ChatMessage[]): readonly ChatMessage[] {
  return messages.slice(
    0,
    messages.findIndex(({ role }) => role === "assistant"),
  );
}

function isSame(one: ChatMessage | undefined, other: ChatMessage | undefined): boolean {
  return one !== undefined && other !== undefined && equals(ChatMessageSchema, one, other);
}
