// SPDX-License-Identifier: Apache-2.0
/** One episode of an environment, straight at an env-runner: no agent, no engine, no job. */
import { type JsonObject, type JsonValue, toJson } from "@bufbuild/protobuf";
import { type Observation, ObservationSchema } from "@whetstone/proto/environments/v1/environments";

import { type RunnerClient, RunnerSession, type SessionOptions } from "./runner-session.ts";

/** Text as an agent would say it, or what its agent would make of it: tool calls. */
export type Action = string | JsonObject | readonly JsonValue[];

/** @returns the next action; undefined: no more */
export type Player = (observation: Observation) => Promise<Action | undefined>;

export interface Trial extends SessionOptions {
  readonly seed: bigint;
}

export interface PlayedTurn {
  /** Absent: the observation is the first. */
  readonly action?: Action;
  readonly observation: Observation;
}

/** Plays until the episode ends or the player has no more actions. @throws CliError with what the environment says */
export async function* playTrial(
  client: RunnerClient,
  { seed, ...options }: Trial,
  player: Player,
): AsyncGenerator<PlayedTurn> {
  const session = new RunnerSession(client, options);
  try {
    let observation = await session.reset(seed);
    yield { observation };
    while (!isOver(observation)) {
      const action = await player(observation);
      if (action === undefined) break;
      observation = await session.step(action);
      yield { action, observation };
    }
  } finally {
    await session.close();
  }
}

export function isOver({ terminated, truncated }: Observation): boolean {
  return terminated || truncated;
}

/** For programs. */
export function turnAsJson({ action, observation }: PlayedTurn): JsonObject {
  const seen = toJson(ObservationSchema, observation, { alwaysEmitImplicit: true }) as JsonObject;
  return action === undefined ? { observation: seen } : { action: action as JsonValue, observation: seen };
}
