// SPDX-License-Identifier: Apache-2.0
import { WhetstoneError } from "@whetstone/core";
import { z } from "zod";

import type { ChatMessage, Info, Task } from "@whetstone/sdk";
import { jsonValue } from "./json-value.ts";

/** A task as datasets hold it. */
export interface DatasetTask extends Task {
  /** Where it comes from; reports have one line a source. */
  readonly source: string;
  /** The conversation to imitate; for SFT only. */
  readonly demonstration?: readonly ChatMessage[];
}

export type Row = Readonly<Record<string, unknown>>;

/** Where a row stands: its dataset's name, its index from 0, and its place for errors, e.g. "a.jsonl:3". */
export interface RowPlace {
  readonly name: string;
  readonly index: number;
  readonly at: string;
}

const OWN = new Set(["id", "payload", "demonstration", "source"]);
const message = z.strictObject({
  role: z.enum(["system", "user", "assistant", "tool"]),
  content: z.string().default(""),
  name: z.string().optional(),
  toolCalls: z.array(z.strictObject({ id: z.string(), name: z.string(), argumentsJson: z.string() })).optional(),
  toolCallId: z.string().optional(),
  reasoning: z.string().optional(),
});
const head = z.object({
  id: z
    .union([z.string().min(1).max(200), z.int(), z.bigint()])
    .transform(String)
    .nullish(),
  source: z.string().max(200).nullish(),
  demonstration: z.array(message).nullish(),
});

/**
 * The task of a row. A row that has nothing but `id`, `payload` (an object), `demonstration` and `source` is a task as it stands.
 * Of any other row `id`, `demonstration` and `source` are taken out and the other columns are the payload. Without an id the
 * task is called "<name>-<index>", without a source it comes from the dataset's name.
 * @throws WhetstoneError INVALID_ARGUMENT that names the place and the column.
 */
export function taskOfRow(row: unknown, place: RowPlace): DatasetTask {
  if (!isRecord(row)) throw bad(place, "must be an object");
  const parsed = head.safeParse(row);
  if (!parsed.success) throw bad(place, reasonOf(parsed.error));
  const { id, source, demonstration } = parsed.data;
  const payload = isTask(row) ? row["payload"] : withoutOwn(row);
  return {
    id: id ?? `${place.name}-${place.index}`,
    payload: jsonValue(payload, `${place.at}: payload`) as Info,
    source: source === undefined || source === null || source === "" ? place.name : source,
    ...(demonstration === undefined || demonstration === null || demonstration.length === 0
      ? {}
      : { demonstration: demonstration as ChatMessage[] }),
  };
}

/** One line of a dataset's file: `whetstone.types.v1.Task` in protobuf's JSON form. */
export function taskLine({ id, payload, demonstration, source }: DatasetTask): string {
  return `${JSON.stringify({ id, payload, ...(demonstration === undefined ? {} : { demonstration }), source })}\n`;
}

/** Each task so many times in a row; the second is called "<id>#2". */
export function* copiesOf(task: DatasetTask, times: number): Generator<DatasetTask> {
  yield task;
  for (let copy = 2; copy <= times; copy += 1) yield { ...task, id: `${task.id}#${copy}` };
}

function isTask(row: Row): boolean {
  return isRecord(row["payload"]) && Object.keys(row).every((key) => OWN.has(key));
}

function withoutOwn(row: Row): Row {
  const own = new Set(["id", "demonstration", "source"]);
  return Object.fromEntries(Object.entries(row).filter(([key]) => !own.has(key)));
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
