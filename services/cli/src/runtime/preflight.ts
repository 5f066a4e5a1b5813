// SPDX-License-Identifier: Apache-2.0
/** What is refused before anything starts, each with the path or port at fault. */
import { checkModel } from "../models/models-tool.ts";
import type { Violation } from "../cli-error.ts";
import { badInput } from "../cli-error.ts";
import type { DataPaths } from "./layout.ts";
import { checkWritable } from "./make-folder.ts";
import { readLock } from "./lock.ts";
import { findNatsServer } from "./nats-server.ts";
import { isPortFree } from "./ports.ts";
import type { FixedPorts } from "./port-names.ts";

export interface PreflightInput {
  readonly paths: DataPaths;
  /** The user's own model folder. Absent: the default is made. */
  readonly model?: string;
  readonly ports: FixedPorts;
  readonly engines: number;
  readonly environment: NodeJS.ProcessEnv;
  /** The caller has checked the model already: it takes seconds. */
  readonly modelIsChecked: boolean;
}

/** Throws bad input with every violation found. Answers the nats-server to use. */
export async function preflight(input: PreflightInput): Promise<{ natsServer: string }> {
  refuseIfRunning(input.paths);
  const violations = [...checkWritable(input.paths.root), ...(await checkPorts(input))];
  if (violations.length > 0) throw badInput(violations, "CANNOT_START");
  const natsServer = findNatsServer(input.environment);
  if (input.model !== undefined && !input.modelIsChecked) await checkModel(input.model, "--model");
  return { natsServer: natsServer.path };
}

export function refuseIfRunning(paths: DataPaths): void {
  const holder = readLock(paths.lock);
  if (!holder) return;
  const reason = `a runtime is already running here (pid ${holder.pid}); stop it with \`whet down\``;
  throw badInput([{ path: paths.root, reason }], "ALREADY_RUNNING");
}

async function checkPorts(input: PreflightInput): Promise<Violation[]> {
  const wanted = Object.entries(input.ports).flatMap(([name, port]) =>
    name === "engine"
      ? Array.from({ length: input.engines }, (_, index) => [name, port + index] as const)
      : [[name, port] as const],
  );
  const checked = wanted.map(async ([name, port], index): Promise<Violation[]> => {
    const twice = wanted.findIndex(([, other]) => other === port) !== index;
    if (twice) return [{ path: `--${name}-port`, reason: `port ${port} is given twice` }];
    return (await isPortFree(port)) ? [] : [{ path: `--${name}-port`, reason: `port ${port} is in use` }];
  });
  return (await Promise.all(checked)).flat();
}
