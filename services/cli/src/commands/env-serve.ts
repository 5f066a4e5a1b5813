// SPDX-License-Identifier: Apache-2.0
/** `whet envs serve`: an environment of an env-runner for clients of OpenEnv. */
import type { JsonObject } from "@bufbuild/protobuf";
import { startOpenEnvServer } from "@whetstone/openenv";

import { badInput } from "../cli-error.ts";
import { RunnerEnvironment } from "../environments/runner-session.ts";
import type { CommandContext } from "./context.ts";
import { argsOf, type EpisodeFlags, runnerOf } from "./episode-flags.ts";
import { numberOf } from "./number-of.ts";

export interface ServeFlags extends EpisodeFlags {
  readonly listen?: string;
  readonly sessions?: string;
}

/** Of one episode. */
const DEADLINE_MS = 3_600_000;

export async function serveEnvironment(kind: string, flags: ServeFlags, context: CommandContext): Promise<void> {
  const { signal, terminal } = context;
  const address = listenAddress(flags.listen);
  const sessions = numberOf("--sessions", flags.sessions, 64, { least: 1, most: 10_000, whole: true });
  const args = await argsOf(flags);
  await using runner = await runnerOf(kind, flags, context);
  const { kinds } = await runner.describe({}, { signal });
  await using server = await startOpenEnvServer({
    ...address,
    name: kind,
    description: kinds.find((one) => one.kind === kind)?.description ?? kind,
    sessions,
    open: (more) => {
      const given = { ...args, ...more } as JsonObject;
      return new RunnerEnvironment(runner, { kind, args: given, deadlineMs: DEADLINE_MS, signal });
    },
  });
  if (flags.json === true) terminal.json({ kind, url: server.url });
  else terminal.line(`${kind} is served at ${server.url}`);
  if (!signal.aborted) await new Promise((resolve) => signal.addEventListener("abort", resolve, { once: true }));
}

function listenAddress(listen = "127.0.0.1:8000"): { host: string; port: number } {
  const { host, port } = /^(?<host>.+):(?<port>\d{1,5})$/u.exec(listen)?.groups ?? {};
  if (host !== undefined && Number(port) <= 65_535) return { host, port: Number(port) };
  throw badInput([{ path: "--listen", reason: `must be host:port, not "${listen}"` }]);
}
