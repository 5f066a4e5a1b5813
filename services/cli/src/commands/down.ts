// SPDX-License-Identifier: Apache-2.0
/** `whet down`: stops the runtime of a data directory, wherever it was started. */
import { CliError } from "../cli-error.ts";
import { dataDirectory, dataPaths } from "../runtime/layout.ts";
import { endLeftovers } from "../runtime/leftovers.ts";
import { readLock } from "../runtime/lock.ts";
import { isSameProcess, waitGone } from "../runtime/processes.ts";
import { readState, removeState } from "../runtime/state-file.ts";
import type { CommandContext, CommonOptions } from "./context.ts";

/** Layers stop one after the other, each within 5 s and a kill. */
const STOP_WITHIN_MS = 45_000;

export async function down(flags: CommonOptions, context: CommandContext): Promise<void> {
  const paths = dataPaths(dataDirectory(flags.data, context.environment));
  const holder = readLock(paths.lock);
  if (holder) {
    process.kill(holder.pid, "SIGTERM");
    const gone = await waitGone(() => !isSameProcess(holder.pid, holder.started), STOP_WITHIN_MS);
    if (!gone) throw new CliError("STILL_RUNNING", `the runtime (pid ${holder.pid}) did not stop; see ${paths.logs}`);
  }
  const left = readState(paths.state);
  if (left) {
    await endLeftovers(left); // its supervisor was killed
    removeState(paths.state);
  }
  const stopped = holder !== undefined || left !== undefined;
  if (flags.json === true) context.terminal.json({ stopped });
  else context.terminal.line(stopped ? "stopped" : `nothing is running in ${paths.root}`);
}
