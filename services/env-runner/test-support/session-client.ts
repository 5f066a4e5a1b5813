// SPDX-License-Identifier: Apache-2.0
import type { JsonObject, MessageInitShape } from "@bufbuild/protobuf";
import type {
  EnvironmentService,
  SessionRequestSchema,
  SessionResponse,
} from "@whetstone/proto/environments/v1/environments";
import type { RpcClient } from "@whetstone/rpc";

export type Request = MessageInitShape<typeof SessionRequestSchema>;
type Answer = SessionResponse["kind"];

/** A session by hand: one request, one answer. */
export interface OpenSession {
  send(request: Request): void;
  /** Undefined case: the stream has ended. */
  read(): Promise<Answer>;
  ask(request: Request): Promise<Answer>;
  end(): Promise<void>;
}

export function openSession(
  client: RpcClient<typeof EnvironmentService>,
  options: { signal?: AbortSignal; deadlineMs?: number } = {},
): OpenSession {
  const { readable, writable } = new TransformStream<Request, Request>({}, { highWaterMark: 16 });
  const writer = writable.getWriter();
  const answers = client.session(readable, options)[Symbol.asyncIterator]();
  const send = (request: Request): void => void writer.write(request);
  const read = async (): Promise<Answer> => {
    const next = (await answers.next()) as IteratorResult<SessionResponse, undefined>;
    return next.done === true ? { case: undefined } : next.value.kind;
  };
  return {
    send,
    read,
    end: () => writer.close(),
    ask(request) {
      send(request);
      return read();
    },
  };
}

export function reset(kind: string, args: JsonObject = {}, seed = 1): Request {
  return { kind: { case: "reset", value: { kind, args, seed: BigInt(seed), episodeId: "e" } } };
}

export function step(action: string): Request {
  return { kind: { case: "step", value: { action } } };
}

export const CLOSE: Request = { kind: { case: "close", value: {} } };
export const CANCEL: Request = { kind: { case: "cancel", value: {} } };
