// SPDX-License-Identifier: Apache-2.0
/** An audit by the controller, which has streams and checkpoints at hand. */
import type { AuditResult, AuditViolation } from "@whetstone/audit";

import type { JobClient } from "../connect/clients.ts";

/** Reading every trained episode of a long job takes minutes. */
const DEADLINE_MS = 1_800_000;

/** Closes the client. */
export async function remoteAudit(job: string, client: JobClient, signal: AbortSignal): Promise<AuditResult> {
  await using jobs = client;
  const answer = await jobs.auditJob({ name: job }, { signal, deadlineMs: DEADLINE_MS });
  return {
    job,
    dispatched: Number(answer.dispatched),
    trained: Number(answer.trained),
    voided: Number(answer.voided),
    baseline: Number(answer.baseline),
    inFlight: Number(answer.inFlight),
    lost: Number(answer.lost),
    duplicated: Number(answer.duplicated),
    stale: Number(answer.stale),
    unlabelled: Number(answer.unlabelled),
    checkedEpisodes: Number(answer.checkedEpisodes),
    violations: answer.violations.map(({ kind, subject, reason }) => ({
      kind: kind as AuditViolation["kind"],
      subject,
      reason,
    })),
  };
}
