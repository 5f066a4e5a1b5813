// SPDX-License-Identifier: Apache-2.0
/** Submits a job, watches it, and knows what an interrupt means. */
import { isAbort, sleep } from "@whetstone/core";
import type { Job, JobSpec } from "@whetstone/proto/jobs/v1/jobs";
import { JobPhase } from "@whetstone/proto/jobs/v1/jobs";

import type { JobClient } from "../connect/clients.ts";
import { SUBMIT_DEADLINE_MS } from "../connect/clients.ts";
import type { ExitCode } from "../cli-error.ts";
import { CliError, EXIT } from "../cli-error.ts";
import type { CommandContext } from "./context.ts";
import type { ControllerConnection } from "./controller-connection.ts";
import type { WatchFlags } from "./watch.ts";
import { watchJob } from "./watch.ts";

/** Takes the job in, with the code of its module; the same job again is taken up where it was suspended. */
export async function submitJob(
  jobs: JobClient,
  spec: JobSpec,
  moduleCode: Uint8Array = new Uint8Array(),
): Promise<{ job: Job; created: boolean }> {
  const { job, created } = await jobs.submitJob({ spec, moduleCode }, { deadlineMs: SUBMIT_DEADLINE_MS });
  if (!job) throw new CliError("CONTRACT_VIOLATION", "the controller answered without the job");
  if (created || job.status?.phase !== JobPhase.SUSPENDED) return { job, created };
  const resumed = await jobs.resumeJob({ name: spec.name });
  return { job: resumed.job ?? job, created };
}

/** Watches to the end, see `untilEnd`. */
export async function watchToEnd(
  controller: ControllerConnection,
  job: Job,
  flags: WatchFlags,
  context: CommandContext,
): Promise<{ exitCode: ExitCode; job?: Job }> {
  const named = { name: job.spec?.name ?? "", json: flags.json === true };
  return untilEnd(controller, named, context, () => watchJob(controller.jobs, job, flags, context));
}

/** An interrupt of `watch` detaches, or, if the runtime ends with this command, suspends the job first. */
export async function untilEnd(
  controller: ControllerConnection,
  { name, json }: { readonly name: string; readonly json: boolean },
  context: CommandContext,
  watch: () => Promise<Job>,
): Promise<{ exitCode: ExitCode; job?: Job }> {
  try {
    const job = await watch();
    return { exitCode: exitCodeOf(job), job };
  } catch (error) {
    if (!context.signal.aborted || !isAbort(error)) throw error;
    return { exitCode: await interrupted(controller, name, json, context) };
  }
}

async function interrupted(
  controller: ControllerConnection,
  name: string,
  json: boolean,
  context: CommandContext,
): Promise<ExitCode> {
  const say = (text: string): void => (json ? undefined : context.terminal.line(text));
  if (!controller.owned) {
    say(`\ndetached; ${name} goes on. Watch it again with \`whet jobs watch ${name}\``);
    return EXIT.ok;
  }
  say(`\nsuspending ${name} after its running step; again to stop at once …`);
  const suspended = await suspendCleanly(controller.jobs, name, context.force);
  say(
    suspended ? `suspended; go on with the same command` : `not suspended in time; it goes on from its last checkpoint`,
  );
  return EXIT.other;
}

/** A step of the tiny model takes seconds; a large one is not waited for any longer. */
const SUSPEND_WITHIN_MS = 60_000;

/** False: not in time, or nobody is there to ask. */
export async function suspendCleanly(jobs: JobClient, name: string, force: AbortSignal): Promise<boolean> {
  try {
    await jobs.suspendJob({ name });
    const end = performance.now() + SUSPEND_WITHIN_MS;
    while (performance.now() < end) {
      const { job } = await jobs.getJob({ name });
      if (job?.status?.phase !== JobPhase.RUNNING) return true;
      await sleep(100, force);
    }
  } catch {
    // The controller is gone or the user will not wait: its records say where to go on.
  }
  return false;
}

export function exitCodeOf(job: Job): ExitCode {
  if (job.status?.phase === JobPhase.SUCCEEDED) return EXIT.ok;
  return job.status?.phase === JobPhase.FAILED ? EXIT.jobFailed : EXIT.other;
}
