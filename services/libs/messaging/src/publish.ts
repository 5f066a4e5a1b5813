// SPDX-License-Identifier: Apache-2.0
import { create, type DescMessage, type MessageInitShape, toBinary } from "@bufbuild/protobuf";
import {
  type JetStreamClient,
  type JetStreamManager,
  type JetStreamPublishOptions,
  type PubAck,
} from "@nats-io/jetstream";
import { headers as natsHeaders, type MsgHdrs } from "@nats-io/nats-core";
import { Deadline, exponentialBackoff, raceSignal, retry, WhetstoneError } from "@whetstone/core";
import { CLAIM_BYTES, CLAIM_HEADER, encodeClaim } from "./claims/claim.ts";
import type { ClaimStore } from "./claims/claim-store.ts";
import { isTransient, isWrongLastSequence, natsError, storeRefusal } from "./nats-errors.ts";

// P1: publishing the same id, or a second message on a subject that takes one, is a success marked duplicate, so a caller
// that lost an answer may simply publish again. P2: a full stream is RESOURCE_EXHAUSTED, retry later: back pressure, not
// failure, and so is a full object store. P3: while the server is away the publish is repeated until the deadline, if an id or
// the subject makes it safe.

export interface PublishOptions {
  /** `Nats-Msg-Id`: the stream drops a second message of the same id within its window. */
  readonly msgId?: string;
  readonly headers?: Readonly<Record<string, string>>;
  /** Refuse (as duplicate) when the subject already holds a message. */
  readonly firstOnSubject?: boolean;
  readonly signal?: AbortSignal | undefined;
  /** For everything, repeats included; default 30,000. */
  readonly timeoutMs?: number;
}

export interface Published {
  /** Position in the stream: of this message, or of the one it repeats. 0 when that one is gone. */
  readonly sequence: number;
  readonly duplicate: boolean;
}

export interface PublisherDeps {
  readonly js: JetStreamClient;
  readonly manager: JetStreamManager;
  readonly claims: ClaimStore;
}

export type PublishFn = <D extends DescMessage>(
  subject: string,
  schema: D,
  message: MessageInitShape<D>,
  options?: PublishOptions,
) => Promise<Published>;

const ATTEMPT_MS = 5_000;

export function createPublish(deps: PublisherDeps): PublishFn {
  return async (subject, schema, message, options = {}) => {
    using deadline = Deadline.after(options.timeoutMs ?? 30_000, options.signal);
    const body = toBinary(schema, create(schema, message));
    const repeatable = options.msgId !== undefined || options.firstOnSubject === true;
    try {
      const { payload, headers } = await envelope(deps.claims, subject, body, { ...options, signal: deadline.signal });
      const send = (): Promise<Published> => publishOnce(deps, { subject, payload, headers, options }, deadline);
      return await retry(send, {
        attempts: repeatable ? Number.POSITIVE_INFINITY : 1,
        backoff: exponentialBackoff({ initialMs: 50, maxMs: 1_000 }),
        signal: deadline.signal,
        isRetryable: isTransient,
      });
    } catch (error) {
      throw natsError(error, `publish ${subject}`);
    }
  };
}

async function envelope(
  claims: ClaimStore,
  subject: string,
  body: Uint8Array,
  options: PublishOptions,
): Promise<{ payload: Uint8Array; headers: MsgHdrs }> {
  const headers = natsHeaders();
  for (const [name, value] of Object.entries(options.headers ?? {})) headers.set(name, value);
  if (body.length <= CLAIM_BYTES) return { payload: body, headers };
  const [, job = "none", kind] = subject.split(".");
  const claim = await claims.put({ job, isEpisode: kind === "episode" }, body, options.signal);
  headers.set(CLAIM_HEADER, encodeClaim(claim));
  return { payload: new Uint8Array(), headers };
}

interface Outgoing {
  readonly subject: string;
  readonly payload: Uint8Array;
  readonly headers: MsgHdrs;
  readonly options: PublishOptions;
}

async function publishOnce(
  deps: PublisherDeps,
  { subject, payload, headers, options }: Outgoing,
  deadline: Deadline,
): Promise<Published> {
  const settings: Partial<JetStreamPublishOptions> = {
    headers,
    timeout: Math.max(1, Math.min(ATTEMPT_MS, deadline.remainingMs())),
    ...(options.msgId === undefined ? {} : { msgID: options.msgId }),
    ...(options.firstOnSubject === true ? { expect: { lastSubjectSequence: 0 } } : {}),
  };
  try {
    const ack: PubAck = await raceSignal(deps.js.publish(subject, payload, settings), deadline.signal);
    return { sequence: ack.seq, duplicate: ack.duplicate };
  } catch (error) {
    if (storeRefusal(error) === "subject" || (options.firstOnSubject === true && isWrongLastSequence(error))) {
      return { sequence: await lastSequence(deps, subject), duplicate: true }; // P1
    }
    if (storeRefusal(error) === "stream") throw full(subject, error); // P2
    throw error;
  }
}

function full(subject: string, cause: unknown): WhetstoneError {
  return new WhetstoneError("RESOURCE_EXHAUSTED", `the stream of ${subject} is full: ${(cause as Error).message}`, {
    retry: "later",
    context: { subject },
    cause,
  });
}

async function lastSequence({ manager }: PublisherDeps, subject: string): Promise<number> {
  const stream = await manager.streams.find(subject);
  const stored = await manager.streams.getMessage(stream, { last_by_subj: subject });
  return stored?.seq ?? 0;
}
