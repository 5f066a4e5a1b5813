// SPDX-License-Identifier: Apache-2.0
/** What `whet envs try`, `check` and `serve` are told of the episodes that they open. */
import type { JsonObject } from "@bufbuild/protobuf";
import { EnvironmentService } from "@whetstone/proto/environments/v1/environments";

import { badInput } from "../cli-error.ts";
import { clientOf } from "../connect/clients.ts";
import { runnerAddresses } from "../connect/endpoint.ts";
import { openDataset } from "../datasets/eval-dataset.ts";
import type { RunnerClient } from "../environments/runner-session.ts";
import type { CommandContext, CommonOptions } from "./context.ts";
import { numberOf } from "./number-of.ts";

export interface EpisodeFlags extends CommonOptions {
  readonly args?: string;
  readonly dataset?: string;
  readonly task?: string;
  readonly seed?: string;
  readonly runner?: string;
}

export const WHOLE = { least: 0, most: Number.MAX_SAFE_INTEGER, whole: true };

/** Those of `--args` with a task's payload over them. */
export async function argsOf(flags: EpisodeFlags): Promise<JsonObject> {
  return { ...objectOf(flags.args), ...(await payloadOf(flags)) };
}

function objectOf(text = "{}"): JsonObject {
  const value = parse(text);
  if (value !== null && typeof value === "object" && !Array.isArray(value)) return value as JsonObject;
  throw badInput([{ path: "--args", reason: `must be a JSON object as {"size": 4}, not ${text}` }]);
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

async function payloadOf({ dataset, task }: EpisodeFlags): Promise<JsonObject> {
  if (dataset === undefined) {
    if (task !== undefined) throw badInput([{ path: "--task", reason: "needs --dataset" }]);
    return {};
  }
  const wanted = numberOf("--task", task, 0, WHOLE);
  let count = 0;
  for await (const { payload } of await openDataset(dataset)) if (count++ === wanted) return payload as JsonObject;
  throw badInput([{ path: "--task", reason: `${dataset} has ${count} tasks, counted from 0; there is no ${wanted}` }]);
}

/** The named one, or that of the runtime which serves the kind. */
export async function runnerOf(
  kind: string,
  { runner, data }: EpisodeFlags,
  context: CommandContext,
): Promise<RunnerClient> {
  const addresses = runner === undefined ? runnerAddresses(data, context.environment) : [runner];
  const known: string[] = [];
  for (const address of addresses) {
    const client = clientOf(EnvironmentService, { role: "env-runner", address }, context.environment);
    const kinds = (await client.describe({}, { signal: context.signal })).kinds.map((one) => one.kind);
    if (kinds.includes(kind)) return client;
    known.push(...kinds);
    await client[Symbol.asyncDispose]();
  }
  throw badInput([{ path: "<kind>", reason: `unknown environment "${kind}"; known: ${known.toSorted().join(", ")}` }]);
}
