// SPDX-License-Identifier: Apache-2.0
import { WhetstoneError } from "./errors.ts";

/** Name of a job: a DNS label of at most 52 characters, so that stream and object names built from it stay legal. */
export type JobId = string & { readonly __brand: "JobId" };
/** Position of a group in its job, from 0. Written `g<index>` inside an episode id. */
export type GroupIndex = number & { readonly __brand: "GroupIndex" };
/** `job/group/sample`, for example `fl-1/g12/s3`. Attempts share it (I1). */
export type EpisodeId = string & { readonly __brand: "EpisodeId" };
/** Version of the weights: 0 is the user's own model, each optimizer step adds one. */
export type PolicyVersion = number & { readonly __brand: "PolicyVersion" };

/** The name of a group inside its job: `g12`, or a word such as `v3-g12` for other purposes. No dots, spaces or slashes. */
export type GroupName = string & { readonly __brand: "GroupName" };

export interface EpisodeParts {
  readonly job: JobId;
  readonly group: GroupName;
  readonly sample: number;
}

const JOB_ID = /^[a-z0-9]([-a-z0-9]{0,50}[a-z0-9])?$/;
const GROUP_NAME = /^[A-Za-z0-9][-_A-Za-z0-9]{0,63}$/;
const SAMPLE = /^s(0|[1-9]\d{0,8})$/;

function invalid(what: string, value: unknown, rule: string): WhetstoneError {
  return new WhetstoneError("INVALID_ARGUMENT", `${what} ${JSON.stringify(value)} must be ${rule}`, {
    context: { value },
  });
}

function isIndex(value: number): boolean {
  return Number.isSafeInteger(value) && value >= 0;
}

export function isJobId(value: string): value is JobId {
  return JOB_ID.test(value);
}

export function jobId(value: string): JobId {
  if (!isJobId(value)) throw invalid("job name", value, "a DNS label of 1 to 52 characters [a-z0-9-]");
  return value;
}

export function groupIndex(value: number): GroupIndex {
  if (!isIndex(value)) throw invalid("group index", value, "an integer of at least 0");
  return value as GroupIndex;
}

/** An index becomes `g<index>`; a name is checked and kept. */
export function groupName(group: GroupIndex | number | string): GroupName {
  const name = typeof group === "number" ? `g${groupIndex(group)}` : group;
  if (!GROUP_NAME.test(name)) throw invalid("group name", name, "1 to 64 characters [A-Za-z0-9_-]");
  return name as GroupName;
}

export function policyVersion(value: number | bigint): PolicyVersion {
  const version = Number(value);
  if (!isIndex(version)) throw invalid("policy version", String(value), "an integer of at least 0");
  return version as PolicyVersion;
}

export function episodeId(job: JobId | string, group: GroupIndex | number | string, sample: number): EpisodeId {
  if (!isIndex(sample)) throw invalid("sample index", sample, "an integer of at least 0");
  return `${jobId(job)}/${groupName(group)}/s${sample}` as EpisodeId;
}

export function parseEpisodeId(value: string): EpisodeParts {
  const [job, group, sample, ...rest] = value.split("/");
  if (job === undefined || group === undefined || sample === undefined || rest.length > 0 || !SAMPLE.test(sample)) {
    throw invalid("episode id", value, "job/group/sample, such as fl-1/g12/s3");
  }
  return { job: jobId(job), group: groupName(group), sample: Number(sample.slice(1)) };
}
