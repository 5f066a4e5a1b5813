// SPDX-License-Identifier: Apache-2.0
import { BrowserEnvironment, browserTask, targetOf } from "@whetstone/browser";
import { ConfigError, parseOrThrow } from "@whetstone/core";
import { beginBrowserTask, type BrowserTask, type Environment, type Judgement, type ServedPage } from "@whetstone/sdk";
import type { Browsers } from "../browsers/browsers.ts";
import { BrowserSettingsSchema, checkMarks, optionsOf } from "../browsers/browser-settings.ts";
import type { BegunTask, CheckCall, ServeCall } from "./calls.ts";

/** What a module's pages may connect to: what its code may by itself, so that a browser is no way around its sandbox. */
export interface ModuleNetwork {
  /** The job's `module.sandbox.network`. */
  readonly named: readonly string[];
  /** The code has no sandbox, and reaches everything. */
  readonly open: boolean;
}

export interface PagesOptions {
  readonly browsers: Browsers;
  readonly network: ModuleNetwork;
  readonly session: number;
  /** A method of the module's process. */
  readonly call: (method: string, payload: unknown, signal: AbortSignal | undefined) => Promise<unknown>;
}

/** Pages in a browser of ours whose task is a module's, in its process. @throws ConfigError; EpisodeError */
export async function openPages({ browser: begun }: BegunTask, options: PagesOptions): Promise<Environment> {
  const { browsers } = options;
  const { settings, reach } = settingsOf(begun, options);
  // Judged here once more: its process may say anything.
  const task = await beginBrowserTask({ begin: () => remoteTask(begun, options) }, { seed: 0 });
  return new BrowserEnvironment({
    ...optionsOf(settings),
    pool: () => browsers.pool,
    task: browserTask(task, { reach }),
  });
}

/** @throws ConfigError: the job is to blame */
function settingsOf(begun: BegunTask["browser"], { browsers, network }: PagesOptions) {
  try {
    if (browsers.missing !== undefined) throw new ConfigError([{ path: "", reason: browsers.missing }]);
    const settings = parseOrThrow(BrowserSettingsSchema, begun.settings, "settings");
    checkMarks(settings);
    return { settings, reach: reachOf(begun, network) };
  } catch (error) {
    throw error instanceof ConfigError ? new ConfigError(error.violations, { code: "TASK_INVALID" }) : error;
  }
}

function remoteTask(begun: BegunTask["browser"], { session, call }: PagesOptions): BrowserTask {
  return {
    ...begun,
    ...(begun.serves && {
      serve: async (request, { signal }) =>
        (await call("serve", { session, request } satisfies ServeCall, signal)) as ServedPage,
    }),
    check: async (page, { signal }) =>
      (await call("check", { session, page } satisfies CheckCall, signal)) as Judgement,
  };
}

/** @throws ConfigError */
function reachOf({ url, serves }: BegunTask["browser"], { named, open }: ModuleNetwork): readonly string[] {
  const own = targetOf(new URL(url)) ?? "";
  if (serves || named.some((each) => each.toLowerCase() === own)) return named;
  if (open) return [own, ...named];
  const reason = `has to name ${own}, where the pages of the module's task begin`;
  throw new ConfigError([{ path: "module.sandbox.network", reason }]);
}
