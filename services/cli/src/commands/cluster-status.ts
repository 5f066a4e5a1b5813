// SPDX-License-Identifier: Apache-2.0
/** `whet status --context …`: the pods of an installation, and what it works on. */
import { JobPhase } from "@whetstone/proto/jobs/v1/jobs";

import { jobClient } from "../connect/clients.ts";
import { chooseContext } from "../cluster/kube-config.ts";
import { releasePods, type RunningJob, runningObjects } from "../cluster/release-pods.ts";
import { controllerAddress } from "../connect/endpoint.ts";
import { formatTable } from "../terminal/format.ts";
import type { CommandContext, CommonOptions } from "./context.ts";

const ASK_WITHIN_MS = 5_000;

export async function clusterStatus(flags: CommonOptions, context: CommandContext): Promise<void> {
  const { environment, terminal } = context;
  const { config, context: name } = chooseContext(environment["WHETSTONE_CONTEXT"] ?? "", environment);
  const where = {
    namespace: environment["WHETSTONE_NAMESPACE"] ?? "",
    release: environment["WHETSTONE_RELEASE"] ?? "",
  };
  const [pods, asked] = await Promise.all([releasePods(config, where), runningJobs(flags, context)]);
  const jobs = asked ?? (await runningObjects(config, where).catch(() => undefined));
  if (flags.json === true) return terminal.json({ context: name, ...where, pods, jobs });
  const ready = pods.filter((pod) => pod.ready).length;
  terminal.line(
    `${terminal.paint("bold", where.release)}  namespace ${where.namespace} of ${name}, ${ready} of ${pods.length} pods ready`,
  );
  const rows = pods.map((pod) => [
    pod.name,
    terminal.paint(pod.ready ? "green" : "yellow", pod.doing),
    String(pod.restarts),
    pod.advice ?? "",
  ]);
  for (const line of formatTable(["POD", "STATE", "RESTARTS", "WHAT TO DO"], rows)) terminal.line(line);
  if (asked === undefined) terminal.line("\njobs: the controller does not answer");
  if (jobs === undefined) return;
  const running = jobs.map(({ name: job, step, steps }) => `${job} (step ${step}/${steps})`);
  terminal.line(running.length === 0 ? "\nno running job" : `\nrunning: ${running.join(", ")}`);
  for (const { message } of jobs) if (message !== "") terminal.line(terminal.paint("yellow", `  ${message}`));
}

async function runningJobs(flags: CommonOptions, { environment }: CommandContext): Promise<RunningJob[] | undefined> {
  await using client = jobClient(controllerAddress(flags.data, environment), environment);
  try {
    const { jobs } = await client.listJobs({ pageSize: 100 }, { deadlineMs: ASK_WITHIN_MS });
    const running = jobs.filter((job) => job.status?.phase === JobPhase.RUNNING);
    return running.map(({ spec, status }) => ({
      name: spec?.name ?? "",
      step: status?.step ?? 0,
      steps: spec?.loop?.steps ?? 0,
      message: status?.message ?? "",
    }));
  } catch {
    return undefined;
  }
}
