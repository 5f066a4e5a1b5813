// SPDX-License-Identifier: Apache-2.0
/** `whet models …`: the models tool, with whet's own errors. */
import { resolve } from "node:path";

import { CliError } from "../cli-error.ts";
import { chatRows, checkChat } from "../models/chat-check.ts";
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

/** @throws CliError when the gateway prints or tokenises conversations otherwise than transformers */
export async function check(directory: string, flags: CommonOptions, context: CommandContext): Promise<void> {
  const folder = resolve(directory);
  const summary = await checkModel(folder, directory, context.signal);
  const chat = await checkChat(folder, directory, context.signal);
  if (flags.json === true) context.terminal.json({ ...summary, chat });
  else {
    show(summary, flags, context);
    for (const [name, value] of chatRows(chat)) line(name, value, context);
  }
  if (chat.comparison.different > 0) {
    const { different, differences } = chat.comparison;
    throw new CliError(
      "CHAT_DIFFERS",
      [`${different} conversations differ from transformers'`, ...differences].join("\n  "),
    );
  }
}

function show(summary: ModelSummary, flags: CommonOptions, context: CommandContext): void {
  if (flags.json === true) return context.terminal.json(summary);
  for (const [name, value] of Object.entries(summary)) line(name.replaceAll("_", " "), String(value), context);
}

function line(name: string, value: string, context: CommandContext): void {
  context.terminal.line(`${name.padEnd(28)}${value}`);
}
