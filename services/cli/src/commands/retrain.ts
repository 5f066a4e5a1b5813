// SPDX-License-Identifier: Apache-2.0
/** `whet jobs retrain`: do the same steps come to the same weights? */
import { badInput, CliError, EXIT } from "../cli-error.ts";
import { natsUrl } from "../connect/endpoint.ts";
import { runPython } from "../models/models-tool.ts";
import { dataDirectory, dataPaths } from "../runtime/layout.ts";
import type { CommandContext, CommonOptions, Outcome } from "./context.ts";

export interface RetrainFlags extends CommonOptions {
  readonly from: string;
  readonly to: string;
  readonly trainerThreads: string;
  readonly trainerDtype: string;
  readonly trainerBackend: string;
  readonly trainerRanks: string;
}

interface Retrained {
  readonly versions: readonly { version: number; published: string | null; retrained: string }[];
  readonly same: boolean;
}

/** Steps of a large model take hours. */
const DEADLINE_MS = 24 * 3_600_000;

/** Exit code 1 when a version differs from the one that was published. */
export async function retrain(
  job: string,
  flags: RetrainFlags,
  context: CommandContext,
  outcome: Outcome,
): Promise<void> {
  const { terminal, environment, signal } = context;
  const nats = natsUrl(flags.data, environment);
  const { runs } = dataPaths(dataDirectory(flags.data, environment));
  const where = ["--nats", nats, "--runs", runs];
  const backend = ["--backend", flags.trainerBackend, "--ranks", flags.trainerRanks];
  const how = ["--threads", flags.trainerThreads, "--dtype", flags.trainerDtype, ...backend];
  const args = ["-m", "whetstone_trainer.retrain", job, "--from", flags.from, "--to", flags.to, ...where, ...how];
  const { code, stdout, stderr } = await runPython(args, signal, DEADLINE_MS);
  if (code > 1 || stdout.trim() === "") throw refusal(stderr, code);
  const result = JSON.parse(stdout) as Retrained;
  if (!result.same) outcome.exitCode = EXIT.other;
  if (flags.json === true) return terminal.json(result);
  for (const { version, published, retrained } of result.versions)
    terminal.line(`v${version}  ${retrained}  ${verdict(published, retrained)}`);
}

function verdict(published: string | null, retrained: string): string {
  if (published === null) return "the published one is gone";
  return published === retrained ? "the same" : `differs from ${published}`;
}

function refusal(stderr: string, code: number): CliError {
  const last = stderr.trim().split("\n").at(-1) ?? "";
  try {
    const { field, reason } = (JSON.parse(last) as { error: { field: string; reason: string } }).error;
    return badInput([{ path: field, reason }], "CANNOT_RETRAIN");
  } catch {
    return new CliError("RETRAIN_FAILED", `the trainer ended with ${code}: ${last}`);
  }
}
