// SPDX-License-Identifier: Apache-2.0
/** `whet jobs metrics`: every step's and validation's numbers, printed or as event files for TensorBoard. */
import { isAbort } from "@whetstone/core";

import type { JobClient } from "../connect/clients.ts";
import type { WatchEvents } from "../jobs/job-watch.ts";
import { followJob } from "../jobs/job-watch.ts";
import { checkLogFolder, EventFolder } from "../metrics/event-folder.ts";
import type { MetricsPoint } from "../metrics/metrics-point.ts";
import { pointDocument, stepPoint, validationPoint } from "../metrics/metrics-point.ts";
import type { CommandContext, CommonOptions } from "./context.ts";
import { connect, present } from "./jobs.ts";

export interface MetricsFlags extends CommonOptions {
  readonly tensorboard?: string;
  readonly follow?: boolean;
}

export async function exportMetrics(name: string, flags: MetricsFlags, context: CommandContext): Promise<void> {
  if (flags.tensorboard !== undefined) checkLogFolder(flags.tensorboard);
  await using client = connect(flags, context);
  const job = present((await client.getJob({ name })).job);
  const read = (take: (point: MetricsPoint) => void): Promise<void> =>
    readMetrics(client, name, { flags, take }, context);
  if (flags.tensorboard === undefined) return await read((point) => context.terminal.json(pointDocument(point)));
  using folder = new EventFolder(flags.tensorboard, job);
  let written = 0;
  await read((point) => void (written += folder.add(point) ? 1 : 0));
  if (flags.json === true) context.terminal.json({ job: name, path: folder.path, written });
  else context.terminal.line(`${written} steps and validations written to ${folder.path}`);
}

async function readMetrics(
  client: JobClient,
  name: string,
  { flags, take }: { readonly flags: MetricsFlags; readonly take: (point: MetricsPoint) => void },
  { signal, terminal }: CommandContext,
): Promise<void> {
  const events: WatchEvents = {
    job: () => {},
    step: (record) => take(stepPoint(record)),
    validation: (result) => take(validationPoint(result)),
    lost: (error) => terminal.error(`${error.message}; trying again …`),
  };
  if (flags.follow === true) {
    await followJob(client, name, events, signal).catch((error: unknown) => {
      if (!signal.aborted || !isAbort(error)) throw error; // An interrupt ends only the following.
    });
    return;
  }
  for await (const { event } of client.streamMetrics({ name }, { signal })) {
    if (event.case === "step") events.step(event.value);
    if (event.case === "validation") events.validation(event.value);
  }
}
