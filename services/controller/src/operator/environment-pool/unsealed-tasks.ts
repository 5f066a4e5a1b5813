// SPDX-License-Identifier: Apache-2.0
import { DEFAULT_POOL, type Nats, tasksLeft } from "@whetstone/messaging";
import { type Job, JobPhase } from "@whetstone/proto/jobs/v1/jobs";

/**
 * Episodes of running jobs that are dispatched and not sealed, by pool: what is left in their TASK streams, training and
 * validation alike. Needs no env-runner and no orchestrator to be there.
 */
export async function unsealedTasks(nats: Nats, jobs: readonly Job[]): Promise<Map<string, number>> {
  const unsealed = new Map<string, number>();
  for (const { spec, status } of jobs) {
    if (status?.phase !== JobPhase.RUNNING || !spec?.environment?.kind) continue;
    const pool = spec.environment.pool ?? DEFAULT_POOL;
    unsealed.set(pool, (unsealed.get(pool) ?? 0) + (await tasksLeft(nats, spec.name)));
  }
  return unsealed;
}
