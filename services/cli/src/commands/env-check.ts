// SPDX-License-Identifier: Apache-2.0
/** `whet envs check`: whether an environment keeps what training needs of it. */
import { ConfigError, withTimeout } from "@whetstone/core";
import { OpenEnvEnvironment } from "@whetstone/openenv";

import { badInput, CliError, EXIT } from "../cli-error.ts";
import { environmentChecks } from "../conformance/environment/checks.ts";
import type { CheckSettings, Subject } from "../conformance/environment/subject.ts";
import { type CheckResult, runChecks } from "../conformance/run-checks.ts";
import { readActions } from "../environments/players.ts";
import { RunnerEnvironment } from "../environments/runner-session.ts";
import { reportChecks } from "./check-report.ts";
import type { CommandContext, Outcome } from "./context.ts";
import { argsOf, type EpisodeFlags, runnerOf, WHOLE } from "./episode-flags.ts";
import { numberOf } from "./number-of.ts";

export interface CheckFlags extends EpisodeFlags {
  readonly actions?: string;
  readonly steps?: string;
  readonly sessions?: string;
  readonly timeout?: string;
}

/** Mean something in some environments, and nothing in others: both are to be answered. */
const ACTIONS = ["0", "1", "up", "left", "2", "right", "down", "yes"];
/** Of a session. */
const DEADLINE_MS = 600_000;

export async function checkEnvironment(
  target: string,
  flags: CheckFlags,
  context: CommandContext,
  outcome: Outcome,
): Promise<void> {
  const settings: CheckSettings = {
    actions: flags.actions === undefined ? ACTIONS : await readActions(flags.actions),
    seed: numberOf("--seed", flags.seed, 1, WHOLE),
    steps: numberOf("--steps", flags.steps, 20, { least: 1, most: 10_000, whole: true }),
    sessions: numberOf("--sessions", flags.sessions, 4, { least: 1, most: 256, whole: true }),
    timeoutMs: numberOf("--timeout", flags.timeout, 10, { least: 0.1, most: 3600 }) * 1000,
  };
  if (settings.actions.length === 0) throw badInput([{ path: "--actions", reason: "has no action" }]);
  await using opened = new AsyncDisposableStack();
  const subject = await subjectOf(target, flags, { settings, context, opened });
  await refuseBadArguments(subject, settings);
  const results: CheckResult[] = [];
  for await (const result of runChecks(environmentChecks(subject, settings))) {
    context.signal.throwIfAborted();
    results.push(result);
  }
  reportChecks(target, results, { json: flags.json === true, terminal: context.terminal, outcome });
}

/** Wrong arguments are the caller's fault, not the environment's; whatever else goes wrong is for the checks to find. */
async function refuseBadArguments(subject: Subject, { seed, timeoutMs }: CheckSettings): Promise<void> {
  const session = subject.open();
  try {
    await withTimeout(() => Promise.resolve(session.reset({ seed })), { timeoutMs });
  } catch (error) {
    if (error instanceof ConfigError || (error instanceof CliError && error.exitCode === EXIT.badInput)) throw error;
  } finally {
    session.abandon();
  }
}

interface SubjectDeps {
  readonly settings: CheckSettings;
  readonly context: CommandContext;
  readonly opened: AsyncDisposableStack;
}

/** A URL is an OpenEnv server; else it is a kind that an env-runner serves. */
async function subjectOf(
  target: string,
  flags: CheckFlags,
  { settings, context, opened }: SubjectDeps,
): Promise<Subject> {
  const args = await argsOf(flags);
  if (/^(https?|wss?):/u.test(target)) {
    const timeouts = { startTimeoutMs: settings.timeoutMs, callTimeoutMs: settings.timeoutMs };
    return { open: () => new OpenEnvEnvironment({ url: target, reset: args, ...timeouts }) };
  }
  const client = opened.use(await runnerOf(target, flags, context));
  const { signal } = context;
  const { kinds } = await client.describe({}, { signal });
  const seedable = kinds.find(({ kind }) => kind === target)?.capabilities?.seedable ?? false;
  return {
    open: () => new RunnerEnvironment(client, { kind: target, args, deadlineMs: DEADLINE_MS, signal }),
    openSessions: async () => (await client.describe({}, { signal })).slotsUsed,
    seedable,
  };
}
