// SPDX-License-Identifier: Apache-2.0
/**
 * Reads a job from a user's module in a process of its own: a module may loop for ever or end its process while it is loaded,
 * and the command must outlive both.
 */
import { type ChildProcess, fork } from "node:child_process";
import { join, relative } from "node:path";

import { ConfigError, raceSignal, WhetstoneError, withTimeout } from "@whetstone/core";
import { loadModule, placeOf } from "@whetstone/modules";
import type { JobDefinition } from "@whetstone/sdk";

import { badInput, type Violation } from "../cli-error.ts";
import { INSTALLATION } from "../runtime/layout.ts";

/** First argument of the process that reads: `whet` itself, so that the package needs no further program. */
export const READER = "__read-job-module";

/** A module may import much, on a busy machine. */
const READ_MS = 60_000;

export interface ModuleToRead {
  readonly code: Uint8Array;
  /** Where it lies, for its `import.meta.dirname` and for the lines that errors name. */
  readonly folder: string;
  /** As the user typed it. */
  readonly path: string;
}

/** What of a job's module the command needs. */
export interface ReadJob {
  readonly document: Record<string, unknown>;
  /** It defines actors or environments, so that its code is part of the job. */
  readonly hasOwn: boolean;
}

type Answer = { readonly read: ReadJob } | { readonly violations: readonly Violation[] };

export interface ReadOptions {
  readonly signal?: AbortSignal | undefined;
  readonly timeoutMs?: number;
}

/** @throws bad input naming file and line of what the module throws, or that it did not end, or ended the process */
export async function readJobModule(module: ModuleToRead, options: ReadOptions = {}): Promise<ReadJob> {
  const { signal = new AbortController().signal, timeoutMs = READ_MS } = options;
  signal.throwIfAborted();
  const child = fork(INSTALLATION.main, [READER], { serialization: "advanced" });
  try {
    child.send(module);
    const answer = await raceSignal(
      withTimeout(() => answerOf(child, module), { timeoutMs }),
      signal,
    );
    if ("read" in answer) return answer.read;
    throw badInput(answer.violations);
  } catch (error) {
    if (signal.aborted || WhetstoneError.from(error).code !== "DEADLINE_EXCEEDED") throw error;
    const reason = `did not finish loading within ${timeoutMs / 1000} s: is there an endless loop at its top level?`;
    throw badInput([{ path: module.path, reason }]);
  } finally {
    child.kill("SIGKILL");
  }
}

function answerOf(child: ChildProcess, { path }: ModuleToRead): Promise<Answer> {
  return new Promise((resolve, reject) => {
    child.once("message", (answer) => resolve(answer as Answer));
    child.once("error", reject);
    child.once("exit", (code, killedBy) => {
      const how = killedBy === null ? `with code ${code}` : `by ${killedBy}`;
      const reason = `ended its process ${how} while it was loaded: a module must not call process.exit at its top level`;
      resolve({ violations: [{ path, reason }] });
    });
  });
}

/** The process that reads: one module in, one answer out. */
export function serveReader(): void {
  process.once("message", (module: ModuleToRead) => {
    void answer(module).then((said) => process.send?.(said, undefined, {}, () => process.exit(0)));
  });
  process.once("disconnect", () => process.exit(0));
}

async function answer(module: ModuleToRead): Promise<Answer> {
  try {
    const definition = definitionIn(await loadModule(module.code, module), module);
    const hasOwn = definition.actors.length + definition.environments.length > 0;
    return { read: { document: { ...(await definition.document()) }, hasOwn } };
  } catch (error) {
    return { violations: violationsOf(error, module) };
  }
}

function definitionIn(exports: Readonly<Record<string, unknown>>, { path }: ModuleToRead): JobDefinition {
  const candidates = [exports["default"], ...Object.values(exports)];
  const found = candidates.map(definitionOf).find((definition) => definition !== undefined);
  if (found !== undefined) return found;
  throw new ConfigError([{ path, reason: "exports no job: `export default defineJob({…})` from @whetstone/sdk" }]);
}

/** A job, or the one of a trainer. */
function definitionOf(exported: unknown): JobDefinition | undefined {
  if (typeof exported !== "object" || exported === null) return undefined;
  const { definition = exported } = exported as { definition?: unknown };
  return (definition as { form?: unknown } | null)?.form === "job" ? (definition as JobDefinition) : undefined;
}

/** What user code throws is bad input at its line; what names settings does so already. */
function violationsOf(error: unknown, { folder, path }: ModuleToRead): readonly Violation[] {
  if (error instanceof ConfigError) return error.violations;
  const place = placeOf(error, folder);
  const where = place === "" ? path : join(relative(process.cwd(), folder), place);
  return [{ path: where, reason: error instanceof Error ? error.message : String(error) }];
}
