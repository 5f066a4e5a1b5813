// SPDX-License-Identifier: Apache-2.0
import { type ClientHttp2Session, type ClientHttp2Stream, connect, constants } from "node:http2";
import type { Duplex } from "node:stream";
import { abortReason } from "@whetstone/core";
import { type Call, DaemonConnection, type Reply, SILENCE_MS } from "./connection.ts";

/** What may be on its way. A pipe has no latency worth more. */
const WINDOW_BYTES = 4 * 1024 * 1024;

/** HTTP/2 to the daemon over one pipe, which nobody else holds: many calls at a time, and no keys. */
export class PipeConnection extends DaemonConnection {
  readonly #session: ClientHttp2Session;
  readonly #pipe: Duplex;

  constructor(pipe: Duplex) {
    super();
    this.#pipe = pipe;
    const settings = { enablePush: false, initialWindowSize: WINDOW_BYTES };
    this.#session = connect("http://sandbox", { createConnection: () => pipe, settings });
    this.#session.once("connect", () => {
      if (!this.#session.destroyed) this.#session.setLocalWindowSize(WINDOW_BYTES);
    });
    // Calls see it as their own errors.
    this.#session.on("error", () => undefined);
  }

  async open({ method, path, body, signal }: Call): Promise<Reply> {
    signal?.throwIfAborted();
    const { promise, resolve, reject } = Promise.withResolvers<Reply>();
    const options = { endStream: body === undefined, ...(signal && { signal }) };
    const stream = this.#session.request({ ":method": method, ":path": path }, options);
    stream.once("response", (headers) => {
      resolve(replyOf(stream, headers[":status"] ?? 0));
    });
    stream.setTimeout(SILENCE_MS, () => stream.destroy(new Error(`the sandbox said nothing for ${SILENCE_MS} ms`)));
    stream.on("error", (error) => {
      reject(signal?.aborted ? abortReason(signal) : error);
    });
    stream.once("close", () => {
      reject(new Error("the sandbox's pipe was closed before it answered"));
    });
    if (body === undefined) return await promise;
    if (typeof body === "string" || body instanceof Uint8Array) stream.end(body);
    else body.once("error", (error) => stream.destroy(error)).pipe(stream);
    return await promise;
  }

  [Symbol.dispose](): void {
    this.#session.destroy();
    this.#pipe.destroy();
  }
}

function replyOf(stream: ClientHttp2Stream, status: number): Reply {
  return {
    status,
    destroy() {
      if (!stream.closed) stream.close(constants.NGHTTP2_CANCEL);
    },
    [Symbol.asyncIterator]: () => stream[Symbol.asyncIterator](),
  };
}
