// SPDX-License-Identifier: Apache-2.0
import type { Command } from "commander";

/** Every command speaks JSON and knows its data directory. */
export function command(parent: Command, name: string, description: string): Command {
  return parent
    .command(name)
    .description(description)
    .option("--json", "print JSON, also for errors")
    .option("--data <dir>", "data directory of the local runtime (default: WHETSTONE_DATA or .whetstone)")
    .configureHelp({ showGlobalOptions: true })
    .exitOverride();
}
