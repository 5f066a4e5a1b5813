// SPDX-License-Identifier: Apache-2.0
/** `whet envs try`: one episode played by hand, by a file of actions, or by a model. */
import type { JsonObject } from "@bufbuild/protobuf";

import { badInput } from "../cli-error.ts";
import { humanPlayer, modelPlayer, type OpenPlayer, scriptedPlayer, textOf } from "../environments/players.ts";
import { isOver, type PlayedTurn, playTrial, type Trial, turnAsJson } from "../environments/trial.ts";
import { formatImage } from "../terminal/format.ts";
import type { Terminal } from "../terminal/terminal.ts";
import type { CommandContext } from "./context.ts";
import { argsOf, type EpisodeFlags, runnerOf, WHOLE } from "./episode-flags.ts";
import { numberOf } from "./number-of.ts";

export interface TrialFlags extends EpisodeFlags {
  readonly actions?: string;
  readonly server?: string;
  readonly model?: string;
  readonly system?: string;
}

/** A person thinks long. */
const DEADLINE_MS = 3_600_000;
/** Of the server that `--server` names. */
const KEY_VARIABLE = "WHETSTONE_API_KEY";

export async function tryEnvironment(kind: string, flags: TrialFlags, context: CommandContext): Promise<void> {
  const { actions, server, model, system } = flags;
  if (actions !== undefined && server !== undefined)
    throw badInput([{ path: "--server", reason: "cannot be given beside --actions: choose who plays" }]);
  if (server === undefined && (model ?? system) !== undefined)
    throw badInput([{ path: "--server", reason: "is needed for --model and --system" }]);
  const seed = numberOf("--seed", flags.seed, 0, WHOLE);
  const args = await argsOf(flags);
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
  for (const image of observation.images) terminal.line(formatImage(image));
  const { reward, terminated, info } = observation;
  if (reward !== undefined) terminal.line(terminal.paint("green", `reward ${reward}`));
  if (!isOver(observation)) return;
  terminal.line(
    terminal.paint("bold", terminated ? "the episode is over" : "the environment's own limit ended the episode"),
  );
  if (info !== undefined) terminal.line(terminal.paint("dim", JSON.stringify(info, undefined, 1)));
}
