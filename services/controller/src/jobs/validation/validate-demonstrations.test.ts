// SPDX-License-Identifier: Apache-2.0
import { create } from "@bufbuild/protobuf";
import { TaskSchema } from "@whetstone/proto/types/v1/types";
import { expect, it } from "vitest";
import { listTasks } from "../../datasets/dataset.ts";
import { checkDemonstrations } from "./validate-demonstrations.ts";

const said = (...contents: string[]) =>
  contents.map((content, i) => ({ role: i === contents.length - 1 ? "assistant" : "user", content }));
const call = (...promptIds: number[]) => ({ id: "c0", promptIds, completionIds: [7] });
const reasonOf = async (task: Parameters<typeof create<typeof TaskSchema>>[1]): Promise<string | undefined> => {
  const tasks = listTasks([create(TaskSchema, { id: "t", ...task })]);
  return (await checkDemonstrations(tasks, "validation.dataset", true))[0]?.reason;
};

it("takes pairs of one prompt, whatever comes after it", async () => {
  const chosen = [...said("q", "yes"), ...said("more", "fine")];
  expect(await reasonOf({ chosen, rejected: said("q", "no") })).toBeUndefined();
});

it.each([
  ["a prompt that differs", said("a", "b", "yes"), said("a", "c", "no"), "rejected[1]: is not chosen[1]"],
  ["a prompt that is longer", said("a", "yes"), said("a", "b", "no"), "rejected[1]: is not chosen[1]"],
  ["nothing that was rejected", said("a", "yes"), [], "rejected: has no assistant message"],
  ["nothing that was chosen", [{ role: "user", content: "a" }], said("a", "no"), "chosen: has no assistant message"],
])("refuses %s, by the message", async (_name, chosen, rejected, reason) => {
  expect(await reasonOf({ chosen, rejected })).toContain(`task 1 (t): ${reason}`);
});

it("compares the prompts of recorded calls", async () => {
  const chosenCalls = [call(1, 2), call(9)];
  expect(await reasonOf({ chosenCalls, rejectedCalls: [call(1, 2)] })).toBeUndefined();
  expect(await reasonOf({ chosenCalls, rejectedCalls: [call(1, 3)] })).toContain("rejectedCalls[0].promptIds: are not");
  expect(await reasonOf({ chosenCalls })).toContain("rejectedCalls[0].promptIds: is required");
});
