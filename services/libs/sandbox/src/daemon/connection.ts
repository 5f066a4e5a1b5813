// SPDX-License-Identifier: Apache-2.0
import type { Readable } from "node:stream";

export interface Call {
  readonly method: "GET" | "POST" | "PUT" | "DELETE";
  readonly path: string;
  readonly body?: string | Uint8Array | Readable | undefined;
  readonly signal?: AbortSignal | undefined;
}

export interface Answer {
  readonly status: number;
  readonly body: Buffer;
}

/** An answer whose rest is still to come. Who does not read it to its end destroys it. */
export interface Reply extends AsyncIterable<unknown> {
  readonly status: number;
  destroy(): void;
}

/** Nothing comes for so long: whoever was there is not. The daemon says every 5 s that it is. */
export const SILENCE_MS = 20_000;

/** A way to the daemon of one sandbox: by mutual TLS to a pod, by a pipe to a container. */
export abstract class DaemonConnection implements Disposable {
  abstract open(call: Call): Promise<Reply>;
  abstract [Symbol.dispose](): void;

  async call(call: Call): Promise<Answer> {
    const reply = await this.open(call);
    const parts: Buffer[] = [];
    for await (const part of reply) parts.push(part as Buffer);
    return { status: reply.status, body: Buffer.concat(parts) };
  }
}
