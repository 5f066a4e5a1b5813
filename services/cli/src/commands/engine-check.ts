// SPDX-License-Identifier: Apache-2.0
/** `whet engines check`: whether an engine that runs speaks the engine protocol as training needs it. */
import { silentLogger } from "@whetstone/telemetry";
import { openTls } from "@whetstone/tls";

import { badInput, CliError } from "../cli-error.ts";
import { EngineChecks } from "../conformance/engine/checks.ts";
import { EngineApi } from "../conformance/engine/engine-api.ts";
import { openEngine } from "../conformance/engine/open-engine.ts";
import { type CheckResult, type RunCheck, runChecks } from "../conformance/run-checks.ts";
import { reportChecks } from "./check-report.ts";
import type { CommandContext, CommonOptions, Outcome } from "./context.ts";
import { numberOf } from "./number-of.ts";

export interface EngineCheckFlags extends CommonOptions {
  readonly model?: string;
  readonly otherModel?: string;
  readonly adapter?: readonly string[];
  readonly only?: string;
  readonly tolerance?: string;
  readonly timeout?: string;
  readonly loadTimeout?: string;
  readonly force?: boolean;
}

export async function checkEngine(
  target: string,
  flags: EngineCheckFlags,
  context: CommandContext,
  outcome: Outcome,
): Promise<void> {
  const { signal, terminal, environment } = context;
  const url = addressOf(target);
  const settings = settingsOf(flags);
  const timeoutMs = numberOf("--timeout", flags.timeout, 30, { least: 0.1, most: 3600 }) * 1000;
  // The certificates of the environment are for our own services: any other engine's are checked as those of a web server.
  using identity = url.startsWith("https:")
    ? openTls(environment["WHETSTONE_TLS_PATH"], { logger: silentLogger })
    : undefined;
  await using api = new EngineApi({
    ...{ url, timeoutMs, apiKey: environment["WHETSTONE_API_KEY"] || undefined, tls: identity?.to("engine") },
  });
  const found = await openEngine(api.within(signal), { isForced: flags.force === true });
  const engine = new EngineChecks({ api, found, settings, signal });
  const results = await resultsOf(chosen(engine.all, flags.only), context);
  if (signal.aborted) throw await stopped(engine, context);
  reportChecks(target, results, { json: flags.json === true, terminal, outcome });
}

async function resultsOf(
  checks: Readonly<Record<string, RunCheck>>,
  { signal, terminal }: CommandContext,
): Promise<CheckResult[]> {
  const names = Object.keys(checks);
  const results: CheckResult[] = [];
  const progress = terminal.live();
  const draw = (): void => progress.draw([`${results.length + 1} of ${names.length}: ${names[results.length] ?? ""}`]);
  draw();
  for await (const result of runChecks(checks)) {
    if (signal.aborted) break;
    results.push(result);
    draw();
  }
  progress.draw([]);
  return results;
}

/** Ctrl-C leaves the engine as it was, too; a second one leaves it as it is. */
async function stopped(engine: EngineChecks, { force }: CommandContext): Promise<CliError> {
  try {
    return new CliError("STOPPED", `stopped; the engine has again: ${await engine.restore(force)}`);
  } catch (error) {
    return new CliError("STOPPED", `stopped, and the engine is not as it was: ${(error as Error).message}`);
  }
}

function addressOf(target: string): string {
  const url = URL.canParse(target) ? new URL(target) : undefined;
  if (url === undefined || !["http:", "https:"].includes(url.protocol) || url.pathname !== "/" || url.search !== "")
    throw badInput([{ path: "<url>", reason: `must be http://host:port or https://host:port, not "${target}"` }]);
  return url.origin;
}

function settingsOf({ model, otherModel, adapter = [], ...flags }: EngineCheckFlags) {
  const path = model === undefined ? "--model" : "--other-model";
  if ((model === undefined) !== (otherModel === undefined))
    throw badInput([{ path, reason: "is missing: --model and --other-model go together" }]);
  if (adapter.length !== 0 && adapter.length !== 2)
    throw badInput([{ path: "--adapter", reason: "is given twice, or not at all: two are compared" }]);
  return {
    ...{ model, otherModel, adapters: adapter },
    tolerance: numberOf("--tolerance", flags.tolerance, 0.001, { least: 0, most: 1 }),
    loadTimeoutMs: numberOf("--load-timeout", flags.loadTimeout, 600, { least: 1, most: 36_000 }) * 1000,
  };
}

/** Those whose names begin with one of the words, and always the one that says that the engine is as it was, which is the last. */
function chosen(all: Readonly<Record<string, RunCheck>>, only: string | undefined): Readonly<Record<string, RunCheck>> {
  if (only === undefined) return all;
  const words = only.split(",").map((word) => word.trim());
  const names = Object.keys(all);
  const unknown = words.find((word) => word === "" || !names.some((name) => name.startsWith(word)));
  if (unknown !== undefined)
    throw badInput([{ path: "--only", reason: `no check begins with "${unknown}"; there are: ${names.join(", ")}` }]);
  const picked = names.filter((name) => name === names.at(-1) || words.some((word) => name.startsWith(word)));
  return Object.fromEntries(picked.map((name) => [name, all[name] as RunCheck]));
}
