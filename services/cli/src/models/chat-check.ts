// SPDX-License-Identifier: Apache-2.0
/** Whether the gateway prints and tokenises a model's conversations as transformers does, and which of them grow at their end only. */
import { execFile } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";

import { CliError } from "../cli-error.ts";
import { INSTALLATION } from "../runtime/layout.ts";
import { modelsTool } from "./models-tool.ts";

/** As the gateway's program prints it. */
export interface ChatReport {
  readonly comparison: {
    readonly alike: number;
    readonly refused: number;
    readonly notPrinted: number;
    readonly different: number;
    readonly differences: readonly string[];
  };
  readonly answerFormat: string;
  /** By kind of episode. */
  readonly appendOnly: Readonly<Record<string, Verdict>>;
}

interface Verdict {
  readonly verdict: string;
  /** The answer whose prompt does not go on from the one before. */
  readonly turn?: number;
  readonly reason?: string;
}

const TIMEOUT_MS = 120_000;

/** `path` is what the user called the folder. @throws CliError, bad input of a folder that one of both cannot read */
export async function checkChat(folder: string, path: string, signal?: AbortSignal): Promise<ChatReport> {
  const scratch = mkdtempSync(join(tmpdir(), "whetstone-chat-"));
  try {
    const references = join(scratch, "references.json");
    await modelsTool(["chat", folder, "--output", references], path, signal);
    return await byGateway(folder, references, signal);
  } finally {
    rmSync(scratch, { recursive: true });
  }
}

async function byGateway(folder: string, references: string, signal?: AbortSignal): Promise<ChatReport> {
  const args = [INSTALLATION.service("inference-gateway"), "check-chat", folder, references];
  try {
    const { stdout } = await promisify(execFile)(process.execPath, args, {
      timeout: TIMEOUT_MS,
      ...(signal ? { signal } : {}),
    });
    return JSON.parse(stdout) as ChatReport;
  } catch (error) {
    if (signal?.aborted) throw new CliError("STOPPED", "stopped");
    const { stderr = "" } = error as { stderr?: string };
    const reason = /^(?:\w*Error): (.*)$/mu.exec(stderr)?.[1] ?? (error as Error).message;
    throw new CliError("BAD_MODEL", `the gateway cannot use the folder: ${reason}`, { cause: error });
  }
}

/** For people: a name and what was found. */
export function chatRows({ comparison, answerFormat, appendOnly }: ChatReport): [string, string][] {
  const { alike, refused, notPrinted, different } = comparison;
  const counts = [`${alike} conversations alike`, `${different} different`];
  if (refused > 0) counts.push(`${refused} refused by the template`);
  if (notPrinted > 0) counts.push(`${notPrinted} with calls that the template does not print`);
  return [
    ["chat beside transformers", counts.join(", ")],
    ["answer format", answerFormat],
    ...Object.entries(appendOnly).map(([kind, verdict]): [string, string] => [kind, wordsOf(verdict)]),
  ];
}

function wordsOf({ verdict, turn, reason }: Verdict): string {
  if (turn !== undefined) return `forks: answer ${turn} does not go on from the tokens before it`;
  return reason === undefined ? verdict : `${verdict}: ${reason}`;
}
