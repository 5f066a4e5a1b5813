// SPDX-License-Identifier: Apache-2.0
/** `whet jobs audit`: recounts a job's books and says whether all is well. */
import { existsSync } from "node:fs";
import { auditJob, type AuditResult } from "@whetstone/audit";
import { WhetstoneError } from "@whetstone/core";
import { connectNats } from "@whetstone/messaging";
import { silentLogger } from "@whetstone/telemetry";

import { remoteAudit } from "../jobs/remote-audit.ts";
import { namedController, natsUrl } from "../connect/endpoint.ts";
import { EXIT } from "../cli-error.ts";
import { formatCount } from "../terminal/format.ts";
import { dataDirectory, dataPaths } from "../runtime/layout.ts";
import type { Terminal } from "../terminal/terminal.ts";
import type { CommandContext, CommonOptions, Outcome } from "./context.ts";
import { connect } from "./jobs.ts";

export async function audit(
  name: string,
  flags: CommonOptions,
  context: CommandContext,
  outcome: Outcome,
): Promise<void> {
  const result = await recount(name, flags, context);
  if (!isSound(result)) outcome.exitCode = EXIT.other;
  if (flags.json === true) context.terminal.json(result);
  else print(result, context.terminal);
}

/** Read from the books themselves where they are at hand, else counted by the controller, who asks for what it has not. */
async function recount(name: string, flags: CommonOptions, context: CommandContext): Promise<AuditResult> {
  const { environment, signal } = context;
  const paths = dataPaths(dataDirectory(flags.data, environment));
  const isElsewhere = namedController(environment) !== undefined || existsSync(paths.own);
  if (!environment["WHETSTONE_NATS_URL"] && isElsewhere)
    return await remoteAudit(name, connect(flags, context), signal);
  const servers = natsUrl(flags.data, context.environment);
  await using connection = await connectNats({
    servers,
    name: "whet-audit",
    logger: silentLogger,
    signal,
  });
  try {
    return await auditJob(name, { connection, runsFolder: paths.runs, signal });
  } catch (error) {
    // Bodies are in an object store, and the controller has its keys.
    if (WhetstoneError.from(error).code !== "FAILED_PRECONDITION") throw error;
    return await remoteAudit(name, connect(flags, context), signal);
  }
}

export function isSound({ lost, duplicated, stale, unlabelled }: AuditResult): boolean {
  return lost + duplicated + stale + unlabelled === 0;
}

function print(result: AuditResult, terminal: Terminal): void {
  const { dispatched, trained, voided, baseline, inFlight } = result;
  const played = baseline > 0 ? ` + ${formatCount(baseline)} baseline` : "";
  terminal.line(
    `${terminal.paint("bold", result.job)}  ${formatCount(dispatched)} dispatched = ${formatCount(trained)} trained + ${formatCount(voided)} voided${played} + ${formatCount(inFlight)} in flight`,
  );
  terminal.line(`read: ${formatCount(result.checkedEpisodes)} trained episodes, token by token`);
  const meaning = { lost: "episodes", duplicated: "episodes", stale: "tokens", unlabelled: "tokens" } as const;
  for (const [kind, unit] of Object.entries(meaning) as [keyof typeof meaning, string][]) {
    const count = result[kind];
    terminal.line(
      `  ${terminal.paint(count === 0 ? "green" : "red", count === 0 ? "✓" : "✗")} ${kind.padEnd(11)} ${formatCount(count)} ${unit}`,
    );
  }
  for (const { kind, subject, reason } of result.violations)
    terminal.line(`    ${terminal.paint("red", kind)} ${subject}: ${reason}`);
}
