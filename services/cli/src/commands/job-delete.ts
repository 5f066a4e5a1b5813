// SPDX-License-Identifier: Apache-2.0
/** `whet jobs delete`: a finished job with all that belongs to it. */
import { toJson } from "@bufbuild/protobuf";
import { type DeleteJobResponse, DeleteJobResponseSchema } from "@whetstone/proto/jobs/v1/jobs";

import { badInput } from "../cli-error.ts";
import { formatBytes, formatCount } from "../terminal/format.ts";
import type { CommandContext, CommonOptions } from "./context.ts";
import { connect } from "./jobs.ts";

/** Gigabytes of checkpoints take their time. */
const DELETE_DEADLINE_MS = 300_000;

export async function deleteJob(
  name: string,
  flags: CommonOptions & { readonly yes?: boolean },
  context: CommandContext,
): Promise<void> {
  const { terminal, signal } = context;
  await using client = connect(flags, context);
  const options = { signal, deadlineMs: DELETE_DEADLINE_MS };
  if (flags.yes !== true) {
    const size = await client.deleteJob({ name, dryRun: true }, options);
    if (flags.json !== true) for (const line of linesOf(size)) terminal.line(line);
    if (flags.json === true || !terminal.isTty)
      throw badInput([
        { path: "--yes", reason: `is needed where nobody can be asked: ${name} would be gone for good` },
      ]);
    if (!(await terminal.confirm(`delete ${name} for good?`, signal))) return terminal.line(`${name} stays`);
  }
  const size = await client.deleteJob({ name }, options);
  if (flags.json === true)
    return terminal.json({ name, deleted: toJson(DeleteJobResponseSchema, size, { alwaysEmitImplicit: true }) });
  terminal.line(`${name} is deleted; its name is free. Freed:`);
  for (const line of linesOf(size)) terminal.line(line);
}

function linesOf(size: DeleteJobResponse): string[] {
  const run = `${size.weights} versions of weights, ${size.checkpoints} checkpoints`;
  const stored = `  ${formatCount(size.storedObjects)} objects in the object store: ${formatBytes(Number(size.storedBytes))}`;
  return [
    `  ${run}: ${formatBytes(Number(size.runBytes))}`,
    ...(size.storedObjects > 0 ? [stored] : []),
    `  ${formatCount(size.episodes)} episodes and what is queued: ${formatBytes(Number(size.streamBytes))}`,
    `  ${formatCount(size.ledgerEntries)} entries of the ledger, and the job's record`,
  ];
}
