// SPDX-License-Identifier: Apache-2.0
/** `whet envs try`: one episode played by hand, by a file of actions, or by a model. */
import type { JsonObject } from "@bufbuild/protobuf";
import { EnvironmentService } from "@whetstone/proto/environments/v1/environments";
import type { RpcClient } from "@whetstone/rpc";

import { badInput } from "../cli-error.ts";
import { clientOf } from "../connect/clients.ts";
import { runnerAddresses } from "../connect/endpoint.ts";
import { openDataset } from "../datasets/eval-dataset.ts";
import { humanPlayer, modelPlayer, type OpenPlayer, scriptedPlayer, textOf } from "../environments/players.ts";
import { isOver, type PlayedTurn, playTrial, type Trial, turnAsJson } from "../environments/trial.ts";
import type { Terminal } from "../terminal/terminal.ts";
import type { CommandContext, CommonOptions } from "./context.ts";
import { numberOf } from "./number-of.ts";

export interface TrialFlags extends CommonOptions {
  readonly args?: string;
  readonly dataset?: string;
  readonly task?: string;
  readonly seed?: string;
  readonly actions?: string;
  readonly server?: string;
  readonly model?: string;
  readonly system?: string;
  readonly runner?: string;
}

/** A person thinks long. */
const DEADLINE_MS = 3_600_000;
/** Of the server that `--server` names. */
const KEY_VARIABLE = "WHETSTONE_API_KEY";
const WHOLE = { least: 0, most: Number.MAX_SAFE_INTEGER, whole: true };

export async function tryEnvironment(kind: string, flags: TrialFlags, context: CommandContext): Promise<void> {
  const { actions, server, model, system } = flags;
  if (actions !== undefined && server !== undefined)
    throw badInput([{ path: "--server", reason: "cannot be given beside --actions: choose who plays" }]);
  if (server === undefined && (model ?? system) !== undefined)
    throw badInput([{ path: "--server", reason: "is needed for --model and --system" }]);
  const seed = numberOf("--seed", flags.seed, 0, WHOLE);
  const args = { ...argsOf(flags.args), ...(await payloadOf(flags)) };
  const { terminal, signal } = context;
  await using runner = await runnerOf(kind, flags, context);
  await using player = await playerOf(flags, seed, context);
  const trial: Trial = { kind, args, seed: BigInt(seed), deadlineMs: DEADLINE_MS, signal };
  const turns: JsonObject[] = [];
  let last: PlayedTurn | undefined;
  for await (const turn of playTrial(runner, trial, player.play)) {
    last = turn;
    if (flags.json === true) turns.push(turnAsJson(turn));
    else showTurn(turn, terminal, flags);
  }
  const over = last !== undefined && isOver(last.observation);
  if (flags.json === true) return terminal.json({ kind, seed, args, over, turns });
  if (!over) terminal.line(terminal.paint("dim", "the episode was left before its end"));
}

function argsOf(text = "{}"): JsonObject {
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

async function payloadOf({ dataset, task }: TrialFlags): Promise<JsonObject> {
  if (dataset === undefined) {
    if (task !== undefined) throw badInput([{ path: "--task", reason: "needs --dataset" }]);
    return {};
  }
  const wanted = numberOf("--task", task, 0, WHOLE);
  let count = 0;
  for await (const { payload } of await openDataset(dataset)) if (count++ === wanted) return payload as JsonObject;
  throw badInput([{ path: "--task", reason: `${dataset} has ${count} tasks, counted from 0; there is no ${wanted}` }]);
}

type Runner = RpcClient<typeof EnvironmentService>;

/** The named one, or that of the runtime which serves the kind. */
async function runnerOf(kind: string, { runner, data }: TrialFlags, context: CommandContext): Promise<Runner> {
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

async function playerOf(flags: TrialFlags, seed: number, context: CommandContext): Promise<OpenPlayer> {
  const { environment, signal, terminal } = context;
  const { actions, server, model, system } = flags;
  if (actions !== undefined) return scriptedPlayer(actions);
  if (server === undefined) return humanPlayer(terminal.paint("cyan", "> "), signal);
  return await modelPlayer({ server, model, system, seed, signal, apiKey: environment[KEY_VARIABLE] });
}

function showTurn({ action, observation }: PlayedTurn, terminal: Terminal, { actions, server }: TrialFlags): void {
  const typed = actions === undefined && server === undefined;
  const said = typeof action === "string" ? action : JSON.stringify(action);
  if (action !== undefined && !typed) terminal.line(terminal.paint("cyan", `> ${said}`));
  if (textOf(observation) !== "") terminal.line(textOf(observation));
  const { reward, terminated, info } = observation;
  if (reward !== undefined) terminal.line(terminal.paint("green", `reward ${reward}`));
  if (!isOver(observation)) return;
  terminal.line(
    terminal.paint("bold", terminated ? "the episode is over" : "the environment's own limit ended the episode"),
  );
  if (info !== undefined) terminal.line(terminal.paint("dim", JSON.stringify(info, undefined, 1)));
}
