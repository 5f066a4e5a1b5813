// SPDX-License-Identifier: Apache-2.0
import { create, mergeFromBinary, type MessageInitShape, toBinary } from "@bufbuild/protobuf";
import { BinaryReader } from "@bufbuild/protobuf/wire";
import { type BatchManifest, BatchManifestSchema } from "@whetstone/proto/events/v1/events";

// A manifest may have 65,000 entries and more than 8 MB, so it is written and read in steps. That works because the bytes of a
// message are those of its parts, one after the other.

/** Fields that are decoded together. */
const PIECE = 64;

/** The manifest's bytes, the same as of `toBinary`: fields in the order of their numbers. */
export function* encodeManifest(manifest: BatchManifest): Generator<void, Uint8Array> {
  const { job, step, epoch, entries, voided, maxPolicyLag, createdAt, baselines } = manifest;
  const parts = [encoded({ job, step, epoch })];
  for (const entry of entries) {
    parts.push(encoded({ entries: [entry] }));
    yield;
  }
  for (const entry of voided) {
    parts.push(encoded({ voided: [entry] }));
    yield;
  }
  parts.push(encoded({ maxPolicyLag, ...(createdAt && { createdAt }) }));
  for (const entry of baselines) {
    parts.push(encoded({ baselines: [entry] }));
    yield;
  }
  return Buffer.concat(parts);
}

export function* decodeManifest(bytes: Uint8Array): Generator<void, BatchManifest> {
  const manifest = create(BatchManifestSchema);
  let [start, fields] = [0, 0];
  for (const { end } of fieldsOf(bytes)) {
    if (++fields % PIECE === 0) {
      mergeFromBinary(BatchManifestSchema, manifest, bytes.subarray(start, end));
      start = end;
    }
    yield;
  }
  return mergeFromBinary(BatchManifestSchema, manifest, bytes.subarray(start));
}

export interface ManifestCounts {
  entries: number;
  voided: number;
  baselines: number;
}

/** How many of each a manifest lists. */
export function* countManifest(bytes: Uint8Array): Generator<void, ManifestCounts> {
  const { entries, voided, baselines } = BatchManifestSchema.field;
  const counts = { entries: 0, voided: 0, baselines: 0 };
  for (const { number } of fieldsOf(bytes)) {
    if (number === entries.number) counts.entries++;
    if (number === voided.number) counts.voided++;
    if (number === baselines.number) counts.baselines++;
    yield;
  }
  return counts;
}

function encoded(part: MessageInitShape<typeof BatchManifestSchema>): Uint8Array {
  return toBinary(BatchManifestSchema, create(BatchManifestSchema, part));
}

/** Number of each field, and where it ends. */
function* fieldsOf(bytes: Uint8Array): Generator<{ number: number; end: number }> {
  const reader = new BinaryReader(bytes);
  while (reader.pos < reader.len) {
    const [number, wireType] = reader.tag();
    reader.skip(wireType, number);
    yield { number, end: reader.pos };
  }
}
