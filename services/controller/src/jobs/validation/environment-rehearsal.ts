// SPDX-License-Identifier: Apache-2.0
import { create, type JsonObject, type MessageInitShape } from "@bufbuild/protobuf";
import { retry, WhetstoneError } from "@whetstone/core";
import type { ModuleCode } from "@whetstone/modules/code";
import type { EnvironmentService } from "@whetstone/proto/environments/v1/environments";
import {
  type ResetSchema,
  type SessionRequest,
  SessionRequestSchema,
} from "@whetstone/proto/environments/v1/environments";
import type { JobSpec } from "@whetstone/proto/jobs/v1/jobs";
import type { Task } from "@whetstone/proto/types/v1/types";
import type { RpcClient } from "@whetstone/rpc";
import type { Violation } from "./validate-job.ts";
import { ofModule } from "./agent-check.ts";

const REHEARSAL_MS = 60_000;
/** Each waits a little for room, so these are some seconds. */
const ROOM_ATTEMPTS = 5;

export interface Rehearsal {
  readonly spec: JobSpec;
  /** The job's own code. Absent: built-in kinds only. */
  readonly module?: ModuleCode | undefined;
  /** The job's first. */
  readonly task: Task;
}

/**
 * Resets the job's environment once with its first task, so that wrong arguments are found before anything starts.
 * @returns undefined where there is no room for it now: its first episodes will say
 */
export async function rehearseReset(
  environments: RpcClient<typeof EnvironmentService>,
  { spec, module, task }: Rehearsal,
): Promise<Violation[] | undefined> {
  const kind = spec.environment?.kind ?? "";
  const own = await ofModule(module, (sent) => kindsOf(environments, sent));
  if ("violation" in own) return [own.violation];
  const isOwn = own.kinds.includes(kind);
  const known = [...own.kinds, ...(await kindsOf(environments, undefined))];
  if (!known.includes(kind))
    return [
      { path: "environment.kind", reason: `unknown environment "${kind}"; known: ${known.join(", ")}`, curable: true },
    ];
  const args: JsonObject = { ...spec.environment?.args, ...task.payload };
  const reset = { kind, args, seed: 0n, episodeId: "rehearsal", ...(isOwn && module && { module, job: spec.name }) };
  try {
    return await retry(() => resetOnce(environments, reset), { attempts: ROOM_ATTEMPTS, isRetryable: isFull });
  } catch (error) {
    if (isFull(error)) return undefined;
    throw error;
  }
}

async function resetOnce(
  environments: RpcClient<typeof EnvironmentService>,
  reset: MessageInitShape<typeof ResetSchema>,
): Promise<Violation[]> {
  for await (const answer of environments.session(resetThenClose(reset), { deadlineMs: REHEARSAL_MS })) {
    if (answer.kind.case !== "error") continue;
    const { field, message } = answer.kind.value;
    return [{ path: field.startsWith("module.") ? field : `environment.${field || "args"}`, reason: message }];
  }
  return [];
}

/** Slots, or pages of browsers: other jobs have them all. */
function isFull(error: unknown): boolean {
  return error instanceof WhetstoneError && error.code === "RESOURCE_EXHAUSTED";
}

async function kindsOf(
  environments: RpcClient<typeof EnvironmentService>,
  module: ModuleCode | undefined,
): Promise<string[]> {
  const { kinds } = await environments.describe(module ? { module } : {}, { deadlineMs: REHEARSAL_MS });
  return kinds.map((described) => described.kind);
}

async function* resetThenClose(value: MessageInitShape<typeof ResetSchema>): AsyncGenerator<SessionRequest> {
  yield create(SessionRequestSchema, { kind: { case: "reset", value } });
  yield create(SessionRequestSchema, { kind: { case: "close", value: {} } });
}
