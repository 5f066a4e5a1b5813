// SPDX-License-Identifier: Apache-2.0
import { Agent, request } from "node:https";
import type { IncomingMessage } from "node:http";
import type { Readable } from "node:stream";
import { abortReason } from "@whetstone/core";
import type { ClaimedPod } from "./claims.ts";

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

/** Nothing comes for so long: whoever was there is not. The daemon says every 5 s that it is. */
const SILENCE_MS = 20_000;

/** Mutual TLS to the daemon of one pod: it has to show the very certificate that the claim told of. */
export class PodConnection implements Disposable {
  readonly #agent: Agent;
  readonly #host: string;
  readonly #port: string;

  constructor({ address, serverCertificate: ca, certificate: cert, key }: ClaimedPod) {
    [this.#host = "", this.#port = ""] = address.split(/:(?=\d+$)/u);
    // A name would say nothing: addresses of pods change hands. What counts is the certificate.
    const checkServerIdentity = (): undefined => undefined;
    this.#agent = new Agent({ keepAlive: true, ca, cert, key, checkServerIdentity, minVersion: "TLSv1.3" });
  }

  async call(call: Call): Promise<Answer> {
    const response = await this.open(call);
    const parts: Buffer[] = [];
    for await (const part of response) parts.push(part as Buffer);
    return { status: response.statusCode ?? 0, body: Buffer.concat(parts) };
  }

  /** The answer's head; who reads the rest destroys it. */
  open({ method, path, body, signal }: Call): Promise<IncomingMessage> {
    const { promise, resolve, reject } = Promise.withResolvers<IncomingMessage>();
    const [host, port, agent] = [this.#host, this.#port, this.#agent];
    const sent = request({ host, port, path, method, agent, timeout: SILENCE_MS, ...(signal && { signal }) });
    sent.once("response", resolve);
    sent.once("timeout", () => sent.destroy(new Error(`the sandbox said nothing for ${SILENCE_MS} ms`)));
    sent.on("error", (error) => {
      reject(signal?.aborted ? abortReason(signal) : error);
    });
    if (body === undefined || typeof body === "string" || body instanceof Uint8Array) sent.end(body);
    else body.once("error", (error) => sent.destroy(error)).pipe(sent);
    return promise;
  }

  [Symbol.dispose](): void {
    this.#agent.destroy();
  }
}
