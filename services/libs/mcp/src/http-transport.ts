// SPDX-License-Identifier: Apache-2.0
import { randomUUID } from "node:crypto";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/client";
import type { HttpServer } from "./settings.ts";

/** How long the end of a session may take. */
const END_MS = 2_000;
/** Streams that were cut off are opened again so often. */
const RECONNECTIONS = 2;

/** A session with a shared server; closing it ends the session there, too. */
export class HttpTransport extends StreamableHTTPClientTransport {
  readonly #url: string;
  #tooLong = "";

  constructor({ url, headers = {}, episodeHeader }: HttpServer, maxMessageBytes: number) {
    const own = episodeHeader === undefined ? {} : { [episodeHeader]: randomUUID() };
    super(new URL(url), {
      requestInit: { headers: { ...headers, ...own } },
      fetch: boundedFetch(maxMessageBytes, (error) => {
        this.#tooLong = error.message;
        this.onclose?.(); // The client would ask for the rest of it until the call's deadline.
      }),
      reconnectionOptions: {
        initialReconnectionDelay: 500,
        maxReconnectionDelay: 2_000,
        reconnectionDelayGrowFactor: 2,
        maxRetries: RECONNECTIONS,
      },
    });
    this.#url = url;
  }

  get why(): string {
    return [this.#url, this.#tooLong].filter((part) => part !== "").join(", ");
  }

  get sandboxError(): undefined {
    return undefined;
  }

  override async close(): Promise<void> {
    const ended = this.terminateSession().catch(() => undefined); // A server that is gone has no session either.
    const late = AbortSignal.timeout(END_MS);
    await Promise.race([ended, new Promise((resolve) => late.addEventListener("abort", resolve, { once: true }))]);
    await super.close();
  }
}

/** No redirect is followed: the episode's token would go to a place that nobody named. An answer has a bound. */
function boundedFetch(maxBytes: number, onTooLong: (error: Error) => void): typeof fetch {
  return async (input, init) => {
    const response = await fetch(input, { ...init, redirect: "error" });
    if (response.body === null) return response;
    const body = response.body.pipeThrough(atMost(maxBytes, onTooLong));
    const { status, statusText, headers } = response;
    return new Response(body, { status, statusText, headers });
  };
}

function atMost(maxBytes: number, onTooLong: (error: Error) => void): TransformStream<Uint8Array, Uint8Array> {
  let bytes = 0;
  return new TransformStream<Uint8Array, Uint8Array>({
    transform(chunk, controller) {
      bytes += chunk.length;
      if (bytes <= maxBytes) {
        controller.enqueue(chunk);
        return;
      }
      const error = new Error(`it sent an answer of more than ${maxBytes} bytes`);
      onTooLong(error);
      controller.error(error);
    },
  });
}
