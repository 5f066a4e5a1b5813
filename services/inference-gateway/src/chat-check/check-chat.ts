// SPDX-License-Identifier: Apache-2.0
// `whet models check`: does the gateway print and tokenise conversations as transformers does, and which of them grow at
// their end only?
import { parseArgs } from "node:util";
import { ModelFolders } from "../codec/model-folder.ts";
import { type Comparison, compare, readReferences } from "./against-transformers.ts";
import { appendOnly, type Verdict } from "./append-only.ts";

export interface ChatReport {
  readonly comparison: Comparison;
  /** See AnswerFormat. */
  readonly answerFormat: string;
  readonly appendOnly: Readonly<Record<string, Verdict>>;
}

/** @param references  file that `python -m whetstone_models chat` wrote. @throws Error that names what cannot be read */
export async function checkChat(folder: string, references: string): Promise<ChatReport> {
  const codec = await ModelFolders.codecOf(folder);
  return {
    comparison: compare(codec, readReferences(references)),
    answerFormat: codec.format.name,
    appendOnly: await appendOnly(codec),
  };
}

/** The gateway's program with these arguments instead of a configuration: prints one line of JSON. */
export async function checkChatProgram(args: string[]): Promise<void> {
  const { positionals } = parseArgs({ args, allowPositionals: true });
  const [folder, references] = positionals;
  if (folder === undefined || references === undefined) throw new Error("usage: check-chat FOLDER REFERENCES");
  process.stdout.write(`${JSON.stringify(await checkChat(folder, references))}\n`);
}
