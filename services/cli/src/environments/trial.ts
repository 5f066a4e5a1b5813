// SPDX-License-Identifier: Apache-2.0
/** One episode of an environment, straight at an env-runner: no agent, no engine, no job. */
import { fromJson, type JsonObject, type JsonValue, type MessageInitShape, toJson } from "@bufbuild/protobuf";
import { ValueSchema } from "@bufbuild/protobuf/wkt";
import {
  type EnvironmentService,
  type Observation,
  ObservationSchema,
  type SessionRequestSchema,
  type SessionResponse,
} from "@whetstone/proto/environments/v1/environments";
import type { RpcClient } from "@whetstone/rpc";

import { badInput, CliError } from "../cli-error.ts";

type Request = MessageInitShape<typeof SessionRequestSchema>;

/** Text as an agent would say it, or what its agent would make of it: tool calls. */
export type Action = string | JsonObject | readonly JsonValue[];

/** @returns the next action; undefined: no more */
export type Player = (observation: Observation) => Promise<Action | undefined>;

export interface Trial {
  readonly kind: string;
  /** Those of a job with the task's payload over them. */
  readonly args: JsonObject;
  readonly seed: bigint;
  /** For the whole episode, in milliseconds. */
  readonly deadlineMs: number;
  readonly signal: AbortSignal;
}

export interface PlayedTurn {
  /** Absent: the observation is the first. */
  readonly action?: Action;
  readonly observation: Observation;
}

/** Plays until the episode ends or the player has no more actions. @throws CliError with what the environment says */
export async function* playTrial(
  client: RpcClient<typeof EnvironmentService>,
  { kind, args, seed, deadlineMs, signal }: Trial,
  player: Player,
): AsyncGenerator<PlayedTurn> {
  const { readable, writable } = new TransformStream<Request, Request>({}, { highWaterMark: 2 });
  const requests = writable.getWriter();
  const answers = client.session(readable, { signal, deadlineMs })[Symbol.asyncIterator]();
  const ask = async (request: Request): Promise<Observation> => {
    void requests.write(request).catch(() => {}); // a stream that broke says so in its answers
    return observationOf((await answers.next()) as IteratorResult<SessionResponse, undefined>);
  };
  try {
    const reset = { kind, args, seed, episodeId: "trial" };
    let observation = await ask({ kind: { case: "reset", value: reset } });
    yield { observation };
    while (!isOver(observation)) {
      const action = await player(observation);
      if (action === undefined) break;
      observation = await ask({ kind: { case: "step", value: stepOf(action) } });
      yield { action, observation };
    }
    void requests.write({ kind: { case: "close", value: {} } }).catch(() => {});
    await answers.next();
  } finally {
    // The stream's end closes the environment.
    await requests.close().catch(() => {});
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

function stepOf(action: Action) {
  return typeof action === "string" ? { action } : { data: fromJson(ValueSchema, action as JsonValue) };
}

function observationOf({ value }: IteratorResult<SessionResponse, undefined>): Observation {
  const kind = value?.kind;
  if (kind?.case === "observation") return kind.value;
  if (kind?.case !== "error")
    throw new CliError("UNAVAILABLE", "the env-runner ended the episode without an answer; `whet logs` says more");
  const { code, field, message } = kind.value;
  if (code === "TASK") throw badInput([{ path: field || "args", reason: message }]);
  throw new CliError(code, message);
}
