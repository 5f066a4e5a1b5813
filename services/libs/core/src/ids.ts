// SPDX-License-Identifier: Apache-2.0
import { WhetstoneError } from "./errors.ts";

export interface EpisodeParts {
  readonly job: string;
  readonly group: string;
  readonly sample: number;
}

const JOB_ID = /^[a-z0-9]([-a-z0-9]{0,50}[a-z0-9])?$/;
const GROUP_NAME = /^[A-Za-z0-9][-_A-Za-z0-9]{0,63}$/;
const SAMPLE = /^s(0|[1-9]\d{0,8})$/;

function invalid(what: string, value: string, rule: string): WhetstoneError {
  const message = `${what} ${JSON.stringify(value)} must be ${rule}`;
  return new WhetstoneError("INVALID_ARGUMENT", message, { context: { value } });
}

/** Name of a job: a DNS label of at most 52 characters, so that stream and object names built from it stay legal. */
export function isJobId(value: string): boolean {
  return JOB_ID.test(value);
}

export function jobId(value: string): string {
  if (!isJobId(value)) throw invalid("job name", value, "a DNS label of 1 to 52 characters [a-z0-9-]");
  return value;
}

/** Name of a group inside its job: `g12`, or a word such as `v3-greedy-12` for other purposes. No dots, spaces or slashes. */
export function groupName(value: string): string {
  if (!GROUP_NAME.test(value)) throw invalid("group name", value, "1 to 64 characters [A-Za-z0-9_-]");
  return value;
}

/** Name of a training group: its position in the job, from 0. */
export function trainGroup(index: number): string {
  return `g${index}`;
}

/** Indexes of a batch's groups, by its dispatch record. Those of former versions do not list them: they are consecutive. */
export function dispatchedGroups(record: {
  readonly step: number;
  readonly samples: readonly unknown[];
  readonly groups: readonly bigint[];
}): number[] {
  const { step, samples, groups } = record;
  return samples.map((_, i) => Number(groups[i] ?? step * samples.length + i));
}

/** Name under which the baseline episodes of a training group are played: they are beside it, not in it. */
export function baselineGroup(index: number): string {
  return `b${index}`;
}

/** `job/group/sample`, for example `fl-1/g12/s3`. Attempts share it (I1). */
export function episodeId(job: string, group: string, sample: number): string {
  return `${job}/${group}/s${sample}`;
}

export function parseEpisodeId(value: string): EpisodeParts {
  const [job, group, sample, ...rest] = value.split("/");
  if (job === undefined || group === undefined || sample === undefined || rest.length > 0 || !SAMPLE.test(sample)) {
    throw invalid("episode id", value, "job/group/sample, such as fl-1/g12/s3");
  }
  return { job: jobId(job), group: groupName(group), sample: Number(sample.slice(1)) };
}

/** What engines call the weights that they serve. Version 0 is the user's own model, each optimizer step adds one. */
export function policyLabel(policy: string, version: number | bigint): string {
  return `${policy}:${version}`;
}
