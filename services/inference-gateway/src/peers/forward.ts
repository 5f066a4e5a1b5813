// SPDX-License-Identifier: Apache-2.0
import type { IncomingHttpHeaders } from "node:http";
import { pipeline } from "node:stream/promises";
import type { FastifyReply, FastifyRequest } from "fastify";
import { Agent, type buildConnector } from "undici";
import { ApiError } from "../completion/api-error.ts";

/** A request that was passed on is looked for at no third replica; only one that gave the session away passes it on again. */
export const RELAYED = "x-whetstone-relayed";
/** The session of the request was begun before: a gateway that does not have it refuses, instead of beginning another. */
export const BEGUN = "x-whetstone-begun";
/** Of one connection; what an answer takes is bounded where it is made. */
const HOP = ["connection", "keep-alive", "transfer-encoding", "host", "upgrade", "expect"];

/** Passes requests on to other replicas, and asks them questions. */
export class Forwarder implements AsyncDisposable {
  /** Requests that are being passed on. */
  running = 0;
  readonly #agent: Agent;

  /** @param connect  to peers with an https:// URL */
  constructor(connect: buildConnector.connector | undefined) {
    const how = connect === undefined ? {} : { connect };
    this.#agent = new Agent({ headersTimeout: 0, bodyTimeout: 0, ...how });
  }

  /** Passes a request on whose body was not read yet, and its answer back as it comes. @returns its status. @throws ApiError 503 */
  async forward(
    url: string,
    { raw }: FastifyRequest,
    { raw: answer }: FastifyReply,
    more: object = {},
  ): Promise<number> {
    const left = new AbortController();
    answer.once("close", () => {
      left.abort();
    });
    this.running++;
    try {
      const { method = "GET", url: path = "/", headers } = raw;
      const said = await this.#agent
        .request({
          ...{ origin: new URL(url).origin, path, method, signal: left.signal },
          ...{ headers: { ...withoutHop(headers), ...more, [RELAYED]: "1" }, body: method === "POST" ? raw : null },
        })
        .catch((cause: unknown) => {
          throw gone(cause);
        });
      answer.writeHead(said.statusCode, withoutHop(said.headers));
      await pipeline(said.body, answer).catch(() => undefined); // Either end has left: the other hears of it.
      return said.statusCode;
    } finally {
      this.running--;
    }
  }

  /** A request of our own. @throws where no whole answer comes in time */
  async ask(
    url: string,
    {
      method,
      headers = {},
      body = null,
    }: { method: "HEAD" | "POST"; headers?: Record<string, string>; body?: string | null },
    signal: AbortSignal,
  ): Promise<{ status: number; body: string }> {
    const { origin, pathname: path } = new URL(url);
    const said = await this.#agent.request({ origin, path, method, headers, body, signal });
    return { status: said.statusCode, body: await said.body.text() };
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#agent.destroy();
  }
}

function withoutHop(headers: IncomingHttpHeaders): Record<string, string | string[]> {
  const kept = Object.entries(headers).filter(([name, value]) => value !== undefined && !HOP.includes(name));
  return Object.fromEntries(kept) as Record<string, string | string[]>;
}

export function gone(cause?: unknown): ApiError {
  const message = "the gateway that held this episode's session is gone";
  const error = new ApiError("UNAVAILABLE", "gateway_gone", message, { retryAfterS: 1 });
  error.cause = cause;
  return error;
}
