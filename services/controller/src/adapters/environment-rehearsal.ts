import { create, type JsonObject } from "@bufbuild/protobuf";
import type { RpcClient } from "@whetstone/rpc";
import type { EnvironmentService } from "@whetstone/proto/environments/v1/environments";
import { type SessionRequest, SessionRequestSchema } from "@whetstone/proto/environments/v1/environments";
import type { JobSpec } from "@whetstone/proto/jobs/v1/jobs";
import type { Task } from "@whetstone/proto/types/v1/types";
import type { Violation } from "../domain/validate-job.ts";

const REHEARSAL_MS = 30_000;

/** Resets the job's environment once with its first task, so that wrong arguments are found before anything starts. */
export async function rehearseReset(
  environments: RpcClient<typeof EnvironmentService>,
  spec: JobSpec,
  task: Task,
): Promise<Violation[]> {
  const kind = spec.environment?.kind ?? "";
  const { kinds } = await environments.describe({}, { deadlineMs: REHEARSAL_MS });
  const known = kinds.map((described) => described.kind);
  if (!known.includes(kind))
    return [{ path: "environment.kind", reason: `unknown environment "${kind}"; known: ${known.join(", ")}` }];
  const args: JsonObject = { ...spec.environment?.args, ...task.payload };
  for await (const answer of environments.session(resetThenClose(kind, args), { deadlineMs: REHEARSAL_MS })) {
    if (answer.kind.case !== "error") continue;
    const { field, message } = answer.kind.value;
    return [{ path: `environment.${field || "args"}`, reason: message }];
  }
  return [];
}

async function* resetThenClose(kind: string, args: JsonObject): AsyncGenerator<SessionRequest> {
  yield create(SessionRequestSchema, {
    kind: { case: "reset", value: { kind, args, seed: 0n, episodeId: "rehearsal" } },
  });
  yield create(SessionRequestSchema, { kind: { case: "close", value: {} } });
}
