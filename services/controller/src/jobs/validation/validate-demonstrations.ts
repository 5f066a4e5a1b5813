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
  if (task.chosenCalls.length + task.rejectedCalls.length > 0) return faultOfCalls(task);
  const fault = faultOf(task, "chosen") || faultOf(task, "rejected");
  if (fault !== "") return fault;
  const [chosen, rejected] = [promptOf(task.chosen), promptOf(task.rejected)];
  const at = Array(Math.max(chosen.length, rejected.length))
    .keys()
    .find((i) => !isSame(chosen[i], rejected[i]));
  if (at === undefined) return "";
  return `rejected[${at}]: is not chosen[${at}]: all before the first assistant message is the prompt, and has to be the same`;
}

/** The first call's prompt is that of the conversation. */
function faultOfCalls({ chosenCalls: [chosen], rejectedCalls: [rejected] }: Task): string {
  for (const [field, call] of Object.entries({ chosenCalls: chosen, rejectedCalls: rejected }))
    if (!call || call.promptIds.length === 0) return `${field}[0].promptIds: is required`;
  if (chosen?.promptIds.join() === rejected?.promptIds.join()) return "";
  return "rejectedCalls[0].promptIds: are not those of chosenCalls[0]: both have to answer the same prompt";
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
