// SPDX-License-Identifier: Apache-2.0
/** `whet models …`: the models tool, with whet's own errors. */
import { resolve } from "node:path";

import type { ModelSummary } from "../models/models-tool.ts";
import { checkModel, modelsTool } from "../models/models-tool.ts";
import type { CommandContext, CommonOptions } from "./context.ts";

export interface InitFlags extends CommonOptions {
  readonly preset?: string;
  readonly seed?: string;
  readonly vocabSize?: string;
  readonly maxPosition?: string;
  readonly initializerRange?: string;
}

export async function initModel(directory: string, flags: InitFlags, context: CommandContext): Promise<void> {
  const options = {
    "--preset": flags.preset,
    "--seed": flags.seed,
    "--vocab-size": flags.vocabSize,
    "--max-position": flags.maxPosition,
    "--initializer-range": flags.initializerRange,
  };
  const given = Object.entries(options).flatMap(([name, value]) => (value === undefined ? [] : [name, value]));
  show(await modelsTool(["init", resolve(directory), ...given], directory, context.signal), flags, context);
}

export async function importModel(
  directory: string,
  flags: CommonOptions & { source: string },
  context: CommandContext,
): Promise<void> {
  show(
    await modelsTool(["import", resolve(directory), "--source", resolve(flags.source)], flags.source, context.signal),
    flags,
    context,
  );
}

export async function check(directory: string, flags: CommonOptions, context: CommandContext): Promise<void> {
  show(await checkModel(resolve(directory), directory, context.signal), flags, context);
}

function show(summary: ModelSummary, flags: CommonOptions, context: CommandContext): void {
  if (flags.json === true) return context.terminal.json(summary);
  for (const [name, value] of Object.entries(summary))
    context.terminal.line(`${name.replaceAll("_", " ").padEnd(16)}${String(value)}`);
}
