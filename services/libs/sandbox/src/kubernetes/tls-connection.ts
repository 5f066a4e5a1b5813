// SPDX-License-Identifier: Apache-2.0
import type { IncomingMessage } from "node:http";
import { Agent, request } from "node:https";
import { abortReason } from "@whetstone/core";
import { type Call, DaemonConnection, type Reply, SILENCE_MS } from "../daemon/connection.ts";
import type { ClaimedPod } from "./claims.ts";

/** Mutual TLS to the daemon of one pod: it has to show the very certificate that the claim told of. */
export class TlsConnection extends DaemonConnection {
  readonly #agent: Agent;
  readonly #host: string;
  readonly #port: string;

  constructor({ address, serverCertificate: ca, certificate: cert, key }: ClaimedPod) {
    super();
    [this.#host = "", this.#port = ""] = address.split(/:(?=\d+$)/u);
    // A name would say nothing: addresses of pods change hands. What counts is the certificate.
    const checkServerIdentity = (): undefined => undefined;
    this.#agent = new Agent({ keepAlive: true, ca, cert, key, checkServerIdentity, minVersion: "TLSv1.3" });
  }

  open({ method, path, body, signal }: Call): Promise<Reply> {
    const { promise, resolve, reject } = Promise.withResolvers<Reply>();
    const [host, port, agent] = [this.#host, this.#port, this.#agent];
    const sent = request({ host, port, path, method, agent, timeout: SILENCE_MS, ...(signal && { signal }) });
    sent.once("response", (response) => {
      resolve(replyOf(response));
    });
    sent.once("timeout", () => sent.destroy(new Error(`the sandbox said nothing for ${SILENCE_MS} ms`)));
    sent.on("error", (error) => {
      reject(signal?.aborted ? abortReason(signal) : error);
    });
    if (body === undefined || typeof body === "string" || body instanceof Uint8Array) sent.end(body);
    else {
      sent.flushHeaders(); // The first of a body may be long in coming.
      body.once("error", (error) => sent.destroy(error)).pipe(sent);
    }
    return promise;
  }

  [Symbol.dispose](): void {
    this.#agent.destroy();
  }
}

function replyOf(response: IncomingMessage): Reply {
  return {
    status: response.statusCode ?? 0,
    destroy: () => void response.destroy(),
    [Symbol.asyncIterator]: () => response[Symbol.asyncIterator](),
  };
}
