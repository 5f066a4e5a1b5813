// SPDX-License-Identifier: Apache-2.0
import { create, toBinary } from "@bufbuild/protobuf";
import { episodeId, trainGroup } from "@whetstone/core";
import { type BatchManifest, BatchManifestSchema } from "@whetstone/proto/events/v1/events";
import { FailureClass } from "@whetstone/proto/types/v1/types";
import type { CompiledJob } from "../compiled-job.ts";
import type { Findings } from "./violation.ts";

/** A manifest is one message: what a server takes with the `max_payload` of 8 MB that we ask for, less the headers. */
export const MAX_MANIFEST_BYTES = 8 * 1024 * 1024 - 64 * 1024;

/** Steps may be added later, so these are the most that any job can have. */
const MOST_STEPS = 1_000_000;
const MOST_GROUPS = MOST_STEPS * 32_768;
const MOST_SEQUENCE = 2n ** 42n;
const LATEST = { seconds: 2n ** 33n, nanos: 999_999_999 };

type Batch = Pick<CompiledJob, "name" | "batchGroups" | "groupSize" | "hasBaselines" | "maxReplacements" | "groupRule">;

/** A batch that could not be written down at its end must not begin. */
export function checkManifestSize(found: Findings, job: Batch): void {
  const bytes = largestManifest(job);
  const reason =
    `with groups of ${job.groupSize} makes manifests of up to ${bytes} bytes, which do not fit into a message of NATS ` +
    `(${MAX_MANIFEST_BYTES}): use fewer groups or a shorter name, or drop incomplete groups instead of completing them`;
  found.check("loop.batchGroups", bytes <= MAX_MANIFEST_BYTES, reason);
}

/** Bytes of the largest manifest: with `complete`, as many episodes again may be voided as are trained. */
export function largestManifest(job: Batch): number {
  const { name, batchGroups, groupSize, hasBaselines, maxReplacements, groupRule } = job;
  // A baseline's entry is as large as a trained episode's, but for its versions.
  const played = groupSize + (hasBaselines ? 1 : 0);
  const members = batchGroups * played;
  const isRefilled = groupRule.kind === "complete";
  const id = episodeId(name, trainGroup(MOST_GROUPS), isRefilled ? 2 * groupSize : groupSize);
  const empty = bytesOf({});
  const trained = bytesOf({ entries: [largestEntry(id)] }) - empty;
  const voided =
    bytesOf({ voided: [{ episodeId: id, failureClass: FailureClass.TASK, reason: "RetriesExhausted" }] }) - empty;
  const head = bytesOf({
    job: name,
    step: MOST_STEPS,
    epoch: MOST_SEQUENCE,
    maxPolicyLag: 8,
    createdAt: LATEST,
  });
  const again = (isRefilled ? batchGroups + 2 * maxReplacements : maxReplacements) * played;
  return head + members * trained + again * voided;
}

function largestEntry(episodeId: string) {
  const version = BigInt(MOST_STEPS);
  const versions = { minPolicyVersion: version, maxPolicyVersion: version };
  const facts = { sequence: MOST_SEQUENCE, digest: "f".repeat(64), reward: 0.1 };
  return { episodeId, group: `g${MOST_GROUPS}`, ...facts, ...versions };
}

function bytesOf(part: Parameters<typeof create<typeof BatchManifestSchema>>[1]): number {
  return toBinary(BatchManifestSchema, create(BatchManifestSchema, part) satisfies BatchManifest).length;
}
