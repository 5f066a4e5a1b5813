// SPDX-License-Identifier: Apache-2.0

/** What a YAML job file holds: the protobuf JSON form of whetstone.jobs.v1.JobSpec. */
export type JobDocument = Record<string, unknown>;

/** The same object without its undefined fields, which JSON has no place for; undefined if nothing is left. */
export function present(fields: JobDocument): JobDocument | undefined {
  const given = Object.entries(fields).filter(([, value]) => value !== undefined);
  return given.length > 0 ? Object.fromEntries(given) : undefined;
}
