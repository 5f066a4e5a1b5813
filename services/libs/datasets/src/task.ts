// SPDX-License-Identifier: Apache-2.0
import { WhetstoneError } from "@whetstone/core";
import { z } from "zod";

import type { ChatMessage, Info, Task } from "@whetstone/sdk";
import { jsonValue } from "./json-value.ts";
import { message } from "./message.ts";

/** A task as datasets hold it. */
export interface DatasetTask extends Task {
  /** Where it comes from; reports have one line a source. */
  readonly source: string;
  /** The conversation to imitate; for SFT only. */
  readonly demonstration?: readonly ChatMessage[];
  /** Two conversations from the same prompt, the better one and the other; for DPO only. */
  readonly chosen?: readonly ChatMessage[];
  readonly rejected?: readonly ChatMessage[];
  /** In place of them: recorded conversations, token by token. */
  readonly chosenCalls?: readonly RecordedCall[];
  readonly rejectedCalls?: readonly RecordedCall[];
  /** Definitions of the tools that its conversations use, as the OpenAI chat API has them. */
  readonly tools?: readonly Info[];
}

/** A model call as an episode has it, as far as it is learned from. */
export type RecordedCall = z.infer<typeof recordedCall>;

export type Row = Readonly<Record<string, unknown>>;

/** Where a row stands: its dataset's name, its index from 0, and its place for errors, e.g. "a.jsonl:3". */
export interface RowPlace {
  readonly name: string;
  readonly index: number;
  readonly at: string;
}

/** Columns that are not the environment's, and of these the lists. */
const LISTS = ["demonstration", "chosen", "rejected", "chosenCalls", "rejectedCalls", "tools"] as const;
const OWN = new Set(["id", "source", ...LISTS]);
const ids = z.array(z.int().nonnegative());
const recordedCall = z.strictObject({
  id: z.string(),
  parentId: z.string().optional(),
  promptIds: ids.optional(),
  completionIds: ids.optional(),
  demonstrationMask: ids.optional(),
});
const head = z.object({
  id: z
    .union([z.string().min(1).max(200), z.int(), z.bigint()])
    .transform(String)
    .nullish(),
  source: z.string().max(200).nullish(),
  demonstration: z.array(message).nullish(),
  chosen: z.array(message).nullish(),
  rejected: z.array(message).nullish(),
  chosenCalls: z.array(recordedCall).nullish(),
  rejectedCalls: z.array(recordedCall).nullish(),
  tools: z.array(z.record(z.string(), z.unknown())).nullish(),
});

/**
 * The task of a row. A row that has nothing but a task's own fields and `payload` (an object) is a task as it stands. Of any
 * other row the task's own fields are taken out and the other columns are the payload. Without an id the task is called "<name>-<index>", without a source it comes from the dataset's name.
 * @throws WhetstoneError INVALID_ARGUMENT that names the place and the column.
 */
export function taskOfRow(row: unknown, place: RowPlace): DatasetTask {
  if (!isRecord(row)) throw bad(place, "must be an object");
  const parsed = head.safeParse(row);
  if (!parsed.success) throw bad(place, reasonOf(parsed.error));
  const { id, source } = parsed.data;
  const payload = isTask(row) ? row["payload"] : withoutOwn(row);
  return {
    id: id ?? `${place.name}-${place.index}`,
    payload: jsonValue(payload, `${place.at}: payload`) as Info,
    source: source === undefined || source === null || source === "" ? place.name : source,
    ...listsOf(parsed.data),
  };
}

/** Those that hold something. */
function listsOf(row: z.infer<typeof head>): Partial<DatasetTask> {
  const found = LISTS.map((name) => [name, row[name]] as const).filter(([, list]) => (list?.length ?? 0) > 0);
  return Object.fromEntries(found);
}

/** One line of a dataset's file: `whetstone.types.v1.Task` in protobuf's JSON form. */
export function taskLine(task: DatasetTask): string {
  const { id, payload, source } = task;
  const lists = Object.fromEntries(LISTS.map((name) => [name, task[name]]));
  return `${JSON.stringify({ id, payload, ...lists, source })}\n`;
}

/** Each task so many times in a row; the second is called "<id>#2". */
export function* copiesOf(task: DatasetTask, times: number): Generator<DatasetTask> {
  yield task;
  for (let copy = 2; copy <= times; copy += 1) yield { ...task, id: `${task.id}#${copy}` };
}

function isTask(row: Row): boolean {
  return isRecord(row["payload"]) && Object.keys(row).every((key) => key === "payload" || OWN.has(key));
}

function withoutOwn(row: Row): Row {
  return Object.fromEntries(Object.entries(row).filter(([key]) => !OWN.has(key)));
}

function isRecord(value: unknown): value is Row {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

function reasonOf(error: z.ZodError): string {
  return error.issues.map((issue) => `${issue.path.join(".")}: ${issue.message}`).join("; ");
}

function bad({ at }: RowPlace, reason: string): WhetstoneError {
  return new WhetstoneError("INVALID_ARGUMENT", `${at}: not a task: ${reason}`);
}
