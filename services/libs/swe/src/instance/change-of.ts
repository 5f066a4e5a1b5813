// SPDX-License-Identifier: Apache-2.0
import { LimitError } from "@whetstone/sandbox";
import { EpisodeError } from "@whetstone/sdk";
import { quoted } from "../agent-shell.ts";
import type { RepositorySandbox } from "./repository-sandbox.ts";

// From the agent's sandbox comes a patch against what it began with, and nothing else.

const OWN = { timeoutMs: 300_000, maxOutputBytes: 64 * 1024 } as const;
/** Relative to `/workspace`. */
const CHANGE = ".whetstone-change.patch";
const MAX_CHANGE_BYTES = 16 * 1024 * 1024;

/**
 * Takes away what the agent must not see: hidden files, and the history, which may hold the repair.
 * @returns the commit that the agent begins with. @throws EpisodeError TASK, SandboxError
 */
export async function begin(
  shell: RepositorySandbox,
  hidden: readonly string[],
  signal?: AbortSignal,
): Promise<string> {
  const remove = hidden.length === 0 ? "true" : `rm -rf -- ${hidden.map(quoted).join(" ")}`;
  const restart =
    "rm -rf .git && git init -q && git add -A && git commit -q --allow-empty -m start && git rev-parse HEAD";
  const { exitCode, stdout, stderr } = await shell.run(`{ ${remove}; } && ${restart}`, { ...OWN, signal });
  const commit = stdout.trim().split("\n").at(-1) ?? "";
  if (exitCode === 0 && /^[0-9a-f]{40,64}$/u.test(commit)) return commit;
  throw new EpisodeError("TASK", `there is no repository to begin with in ${shell.root}: ${stderr.trim().slice(-500)}`);
}

/** Undefined: the agent has made it so that none can be had. */
export async function changeOf(
  shell: RepositorySandbox,
  commit: string,
  signal?: AbortSignal,
): Promise<Uint8Array | undefined> {
  const flags = "--cached --binary --no-color --no-ext-diff --no-textconv --no-renames";
  const command = `git reset -q ${commit} && git add -A && git diff ${flags} ${commit} >${quoted(`${shell.sandbox.workspace}/${CHANGE}`)}`;
  const { exitCode } = await shell.run(command, { ...OWN, signal });
  if (exitCode !== 0) return undefined;
  try {
    const [file] = await shell.sandbox.download([CHANGE], { maxBytes: MAX_CHANGE_BYTES, signal });
    return file === undefined ? undefined : Buffer.from(file.content);
  } catch (error) {
    if (error instanceof LimitError) return undefined;
    throw error;
  }
}
