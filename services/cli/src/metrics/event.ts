// SPDX-License-Identifier: Apache-2.0
/** TensorBoard's `Event`, with scalars only. Source: TensorBoard, compat/proto/event.proto and summary.proto. */
import { BinaryReader, BinaryWriter, WireType } from "@bufbuild/protobuf/wire";

import type { MetricsPoint, Scalar } from "./metrics-point.ts";

const EVENT = { wallTime: 1, step: 2, fileVersion: 3, summary: 5 } as const;
const SUMMARY = { value: 1 } as const;
const VALUE = { tag: 1, simpleValue: 2 } as const;

/** The first event of every file. */
export function versionEvent(time: Date): Uint8Array {
  const event = beginEvent(time);
  return event.tag(EVENT.fileVersion, WireType.LengthDelimited).string("brain.Event:2").finish();
}

/** One event for all of a point: it is in the file whole or not at all. */
export function pointEvent({ step, time, scalars }: MetricsPoint): Uint8Array {
  const event = beginEvent(time).tag(EVENT.step, WireType.Varint).int64(step);
  event.tag(EVENT.summary, WireType.LengthDelimited).fork();
  for (const scalar of scalars) addScalar(event, scalar);
  return event.join().finish();
}

function beginEvent(time: Date): BinaryWriter {
  return new BinaryWriter().tag(EVENT.wallTime, WireType.Bit64).double(time.getTime() / 1000);
}

function addScalar(summary: BinaryWriter, [name, number]: Scalar): void {
  summary.tag(SUMMARY.value, WireType.LengthDelimited).fork();
  summary.tag(VALUE.tag, WireType.LengthDelimited).string(name);
  summary.tag(VALUE.simpleValue, WireType.Bit32).float(Math.fround(number)); // It refuses what a float cannot hold.
  summary.join();
}

/** Which point an event is: its step, and the name of its first scalar. Undefined: it has none. */
export function pointOf(event: Uint8Array): { readonly step: number; readonly name: string } | undefined {
  const fields = firstFields(event);
  const value = firstFields(fields.get(EVENT.summary)?.bytes()).get(SUMMARY.value);
  const name = firstFields(value?.bytes()).get(VALUE.tag)?.string();
  return name === undefined ? undefined : { step: Number(fields.get(EVENT.step)?.int64() ?? 0), name };
}

/** A reader at the value of each field, where it occurs first. */
function firstFields(message: Uint8Array = new Uint8Array()): Map<number, BinaryReader> {
  const [reader, fields] = [new BinaryReader(message), new Map<number, BinaryReader>()];
  while (reader.pos < reader.len) {
    const [field, type] = reader.tag();
    if (!fields.has(field)) fields.set(field, new BinaryReader(message.subarray(reader.pos)));
    reader.skip(type);
  }
  return fields;
}
