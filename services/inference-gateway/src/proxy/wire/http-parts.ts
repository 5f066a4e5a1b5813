// SPDX-License-Identifier: Apache-2.0
/** What every call through the proxy has to do with HTTP. */
import type { IncomingMessage, ServerResponse } from "node:http";
import { WhetstoneError } from "@whetstone/core";
import type { Refusal } from "../../http/refusal.ts";

export const EPOCH = "whetstone-epoch";
/** Of one connection; they come back to the pool before the engine closes them (5 s). */
const HOP_BY_HOP = new Set([
  "connection",
  "keep-alive",
  "transfer-encoding",
  "upgrade",
  "te",
  "trailer",
  "host",
  EPOCH,
]);

/** Ends with the caller's connection. */
export function leaving(response: ServerResponse): AbortSignal {
  const gone = new AbortController();
  response.once("close", () => gone.abort());
  return gone.signal;
}

/** vLLM's error object. */
export function errorOf({ status, type, message }: Refusal): object {
  return { error: { message, type, param: null, code: status } };
}

/** @returns the status */
export function refuse(response: ServerResponse, refusal: Refusal): number {
  return sendJson(response, refusal.status, errorOf(refusal));
}

/** @returns the status */
export function sendJson(response: ServerResponse, status: number, body: object, headers: object = {}): number {
  response.writeHead(status, { "content-type": "application/json", ...headers }).end(JSON.stringify(body));
  return status;
}

export function endToEnd(headers: Record<string, string | string[] | undefined>): Record<string, string | string[]> {
  const kept = Object.entries(headers).filter((entry): entry is [string, string | string[]] => {
    return entry[1] !== undefined && !HOP_BY_HOP.has(entry[0]);
  });
  return Object.fromEntries(kept);
}

/** @throws INVALID_ARGUMENT when there is more of it */
export async function textOf(request: IncomingMessage, maxBytes: number): Promise<string> {
  const chunks: Buffer[] = [];
  let size = 0;
  for await (const chunk of request as AsyncIterable<Buffer>) {
    size += chunk.length;
    if (size > maxBytes) throw new WhetstoneError("INVALID_ARGUMENT", "the body of a call is too large");
    chunks.push(chunk);
  }
  return Buffer.concat(chunks).toString();
}

export function parsedJson(text: string): unknown {
  try {
    return JSON.parse(text) as unknown;
  } catch {
    return undefined;
  }
}

/** Why a call is answered with an error, from where only an exception can say it. */
export class RefusedCall extends Error {
  readonly refusal: Refusal;

  constructor(status: number, type: string, message: string) {
    super(message);
    this.refusal = { status, type, message };
  }
}
