// SPDX-License-Identifier: Apache-2.0
import { type DescMessage, type DescMethod, fromBinary, type MessageShape, toBinary } from "@bufbuild/protobuf";
import type { ChannelOptions } from "@grpc/grpc-js";

export const MAX_MESSAGE_BYTES = 64 * 1024 * 1024;

/**
 * Keepalive finds dead peers within 50 s while calls are open; an idle connection is left alone.
 * A server in another language must permit pings every 30 s (`grpc.http2.min_recv_ping_interval_without_data_ms`).
 */
export const CHANNEL_OPTIONS: ChannelOptions = {
  "grpc.max_receive_message_length": MAX_MESSAGE_BYTES,
  "grpc.max_send_message_length": MAX_MESSAGE_BYTES,
  "grpc.keepalive_time_ms": 30_000,
  "grpc.keepalive_timeout_ms": 20_000,
};

export function pathOf(method: DescMethod): string {
  return `/${method.parent.typeName}/${method.name}`;
}

/** None of our services has a method where only the requests stream. */
export function notSpoken(method: DescMethod): Error {
  return new Error(`${pathOf(method)}: calls whose requests stream and whose answer does not are not supported`);
}

export function serializer<D extends DescMessage>(schema: D): (message: MessageShape<D>) => Buffer {
  return (message) => {
    const bytes = toBinary(schema, message);
    return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  };
}

/** Bytes that are no message of the expected type, and why. */
export class Undecodable {
  readonly reason: string;

  constructor(thrown: unknown) {
    this.reason = thrown instanceof Error ? thrown.message : String(thrown);
  }
}

/** Of one request: what cannot be decoded is the caller's mistake, where grpc-js would answer INTERNAL. */
export function requestDeserializer<D extends DescMessage>(
  schema: D,
): (bytes: Buffer) => MessageShape<D> | Undecodable {
  return (bytes) => {
    try {
      return fromBinary(schema, bytes);
    } catch (error) {
      return new Undecodable(error);
    }
  };
}

export function deserializer<D extends DescMessage>(schema: D): (bytes: Buffer) => MessageShape<D> {
  return (bytes) => fromBinary(schema, bytes);
}
