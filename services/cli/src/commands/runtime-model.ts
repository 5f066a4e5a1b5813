// SPDX-License-Identifier: Apache-2.0
/** The model of a job that names none: the one that the local runtime has, or will have. */
import { findController, runningRuntime } from "../connect/endpoint.ts";
import { dataDirectory, dataPaths } from "../runtime/layout.ts";
import type { CommandContext } from "./context.ts";

/** Undefined: a controller that this machine's runtime is no part of; only it could tell. */
export function runtimeModel(data: string | undefined, { environment }: CommandContext): string | undefined {
  const running = runningRuntime(data, environment)?.model;
  if (running !== undefined || findController(data, environment) !== undefined) return running;
  return dataPaths(dataDirectory(data, environment)).defaultModel;
}
