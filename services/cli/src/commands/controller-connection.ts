// SPDX-License-Identifier: Apache-2.0
/** A controller to talk to: the one that is there, or a runtime of our own for as long as the command runs. */
import { badInput } from "../cli-error.ts";
import type { JobClient } from "../connect/clients.ts";
import { jobClient } from "../connect/clients.ts";
import { findController } from "../connect/endpoint.ts";
import { HOST } from "../runtime/ports.ts";
import type { Runtime } from "../runtime/runtime.ts";
import { portOf } from "../runtime/state-file.ts";
import type { CommandContext } from "./context.ts";
import type { RuntimeFlags } from "./open-runtime.ts";
import { openRuntime } from "./open-runtime.ts";

export interface ControllerConnection extends AsyncDisposable {
  readonly jobs: JobClient;
  /** The runtime was started by this command and ends with it. */
  readonly owned: boolean;
}

/** Uses the running controller, else starts a runtime whose engines begin with `flags.model`, a folder checked before. */
export async function connectController(flags: RuntimeFlags, context: CommandContext): Promise<ControllerConnection> {
  const address = findController(flags.data, context.environment);
  if (address !== undefined && (flags.pythonEnv ?? []).length > 0) {
    const reason = "a runtime is up already; start that one with it: `whet down`, then `whet up --python-env …`";
    throw badInput([{ path: "--python-env", reason }]);
  }
  if (address !== undefined) return connection(address, undefined, context.environment);
  if (flags.json !== true) context.terminal.line("no runtime is up: starting one for this command");
  const runtime = await openRuntime(flags, context, { modelIsChecked: true });
  return connection(`${HOST}:${portOf(runtime.state(), "controller", "grpc")}`, runtime, {});
}

function connection(
  address: string,
  runtime: Runtime | undefined,
  environment: NodeJS.ProcessEnv,
): ControllerConnection {
  const jobs = jobClient(address, environment);
  const close = async (): Promise<void> => {
    await jobs[Symbol.asyncDispose]();
    await runtime?.stop();
  };
  return { jobs, owned: runtime !== undefined, [Symbol.asyncDispose]: close };
}
