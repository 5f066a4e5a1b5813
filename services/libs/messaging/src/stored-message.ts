// SPDX-License-Identifier: Apache-2.0
import { type DescMessage, fromBinary, type MessageShape } from "@bufbuild/protobuf";
import type { MsgHdrs } from "@nats-io/nats-core";
import { WhetstoneError } from "@whetstone/core";
import { CLAIM_HEADER, decodeClaim } from "./claims/claim.ts";
import type { ClaimStore } from "./claims/claim-store.ts";

/** Text headers of a message, by exact name. */
export type Headers = Readonly<Record<string, string>>;

/** A message as it lies in a stream. */
export interface StoredMessage<M> {
  readonly stream: string;
  /** Strictly increasing within the stream. */
  readonly sequence: number;
  readonly subject: string;
  readonly headers: Headers;
  /** `Nats-Msg-Id`. */
  readonly msgId: string | undefined;
  readonly publishedAt: Date;
  /** Fetches the claim, or the body where only headers were read. @throws DATA_LOSS, CONTRACT_VIOLATION */
  body(signal?: AbortSignal): Promise<M>;
  /** As `body`, undecoded. */
  bytes(signal?: AbortSignal): Promise<Uint8Array>;
}

export function readHeaders(headers: MsgHdrs | undefined): Headers {
  const result: Record<string, string> = {};
  for (const [name, values] of headers ?? []) result[name] = values[0] ?? "";
  return result;
}

/** The message's own bytes, or those that its claim stands for. */
export async function resolveBytes(
  claims: ClaimStore,
  headers: Headers,
  data: Uint8Array,
  signal?: AbortSignal,
): Promise<Uint8Array> {
  const claim = headers[CLAIM_HEADER];
  return claim === undefined ? data : await claims.get(decodeClaim(claim), signal);
}

export function decode<D extends DescMessage>(schema: D, bytes: Uint8Array, where: string): MessageShape<D> {
  try {
    return fromBinary(schema, bytes);
  } catch (cause) {
    throw new WhetstoneError("CONTRACT_VIOLATION", `${where} is not a ${schema.typeName}`, { cause });
  }
}
