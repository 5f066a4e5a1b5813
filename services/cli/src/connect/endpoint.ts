// SPDX-License-Identifier: Apache-2.0
/** Where the controller and the gateway's fleet service answer. */
import { CliError } from "../cli-error.ts";
import { dataDirectory, dataPaths } from "../runtime/layout.ts";
import { readLock } from "../runtime/lock.ts";
import { HOST } from "../runtime/ports.ts";
import type { RuntimeState } from "../runtime/state-file.ts";
import { portOf, readState } from "../runtime/state-file.ts";

/** The runtime of a data directory, if one is alive and the command is not about a cluster. */
export function runningRuntime(data: string | undefined, environment: NodeJS.ProcessEnv): RuntimeState | undefined {
  if (environment["WHETSTONE_CONTEXT"]) return undefined;
  const paths = dataPaths(dataDirectory(data, environment));
  return readLock(paths.lock) ? readState(paths.state) : undefined;
}

/** WHETSTONE_ENDPOINT as "host:port". `--context` sets it. */
export function namedController(environment: NodeJS.ProcessEnv): string | undefined {
  const named = environment["WHETSTONE_ENDPOINT"];
  return named ? named.replace(/^(grpc|http):\/\//, "").replace(/\/$/, "") : undefined;
}

/** "host:port" of the controller: WHETSTONE_ENDPOINT, else the running runtime's. Undefined: neither. */
export function findController(data: string | undefined, environment: NodeJS.ProcessEnv): string | undefined {
  const named = namedController(environment);
  if (named !== undefined) return named;
  const state = runningRuntime(data, environment);
  const port = state && portOf(state, "controller", "grpc");
  return port === undefined ? undefined : `${HOST}:${port}`;
}

/** As findController, but says what to do when there is none. */
export function controllerAddress(data: string | undefined, environment: NodeJS.ProcessEnv): string {
  const address = findController(data, environment);
  if (address !== undefined) return address;
  const root = dataPaths(dataDirectory(data, environment)).root;
  const hint = "start one with `whet up`, name its data directory with --data, or set WHETSTONE_ENDPOINT=host:port";
  throw new CliError("NO_RUNTIME", `no runtime is running in ${root}: ${hint}`);
}

/** "host:port" of the env-runners of the running runtime: ours, and that of environments in Python where there is one. */
export function runnerAddresses(data: string | undefined, environment: NodeJS.ProcessEnv): string[] {
  const state = runningRuntime(data, environment);
  const ports = ["env-runner", "env-runner-python"].map((name) => state && portOf(state, name, "grpc"));
  const found = ports.filter((port) => port !== undefined).map((port) => `${HOST}:${port}`);
  if (found.length > 0) return found;
  const hint = "start one with `whet up`, or name an env-runner with --runner HOST:PORT";
  throw new CliError("NO_RUNTIME", `no runtime is running here, and env-runners of a cluster are not reached: ${hint}`);
}

/** NATS of a runtime: WHETSTONE_NATS_URL, else the running runtime's. */
export function natsUrl(data: string | undefined, environment: NodeJS.ProcessEnv): string {
  const named = environment["WHETSTONE_NATS_URL"];
  if (named) return named;
  const state = runningRuntime(data, environment);
  const port = state && portOf(state, "nats", "nats");
  if (port !== undefined) return `nats://${HOST}:${port}`;
  throw new CliError("NO_RUNTIME", "no runtime is running: start it with `whet up`, or set WHETSTONE_NATS_URL");
}
