// SPDX-License-Identifier: Apache-2.0
import type { IncomingMessage, ServerResponse } from "node:http";
import { WhetstoneError } from "@whetstone/core";
import type { Logger } from "@whetstone/telemetry";
import type { Pool } from "undici";
import { EpochFence } from "../fleet/epoch-fence.ts";
import type { Refusal } from "../http/refusal.ts";
import { AMENDED, withOurs } from "./answers.ts";
import { isSteering, type Port, refusalOf, weightLoadOf } from "./rules.ts";
import { WeightGuard, type WeightSources } from "./weights/weight-guard.ts";

/** Of a control call; sampling may be long. */
const MAX_CONTROL_BODY = 1 << 20;
const EPOCH = "whetstone-epoch";
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

/** Lets calls through to the engine, or says why not. */
export class Forwarder {
  readonly #pool: Pool;
  readonly #logger: Logger;
  readonly #fence = new EpochFence();
  readonly #weights: WeightGuard;
  readonly #ours: Parameters<typeof withOurs>[2];

  constructor(pool: Pool, { logger, sources, store }: ForwarderOptions) {
    this.#pool = pool;
    this.#weights = new WeightGuard(pool, sources);
    this.#ours = { store, counters: sources.fetcher?.counters };
    this.#logger = logger;
  }

  async pass(port: Port, request: IncomingMessage, response: ServerResponse): Promise<void> {
    const { method = "GET", url = "/" } = request;
    const path = url.split("?", 1)[0] ?? "/";
    try {
      const refusal = refusalOf(port, method, path) ?? this.#stale(request, method, path);
      if (refusal) return refuse(response, refusal);
      if (AMENDED.has(path)) return await this.#tell(url, response);
      if (!isSteering(method, path)) return void (await this.#forward(request, response, request));
      await this.#steer(path, request, response);
    } catch (error) {
      this.#failed(response, path, error);
    }
  }

  /** The engine's answer, with what it does not say. */
  async #tell(url: string, response: ServerResponse): Promise<void> {
    const { statusCode, headers, body } = await this.#pool.request({ path: url, method: "GET" });
    const path = url.split("?", 1)[0] ?? "/";
    const text = await withOurs(path, await body.text(), this.#ours);
    const type = String(headers["content-type"] ?? "application/json");
    response.writeHead(statusCode, { "content-type": type }).end(text);
  }

  async #steer(path: string, request: IncomingMessage, response: ServerResponse): Promise<void> {
    const body = await textOf(request);
    if (path === "/stage_weights") return await this.#stage(body, response);
    if (path === "/collective_rpc") return await this.#load(body, request, response);
    const refusal = this.#weights.refuses(path);
    return refusal ? refuse(response, refusal) : void (await this.#forward(request, response, body));
  }

  async #stage(body: string, response: ServerResponse): Promise<void> {
    const [startedAt, before] = [performance.now(), this.#ours.counters?.bytes ?? 0];
    const refusal = await this.#weights.stage(body, leaving(response));
    const seconds = Math.round(performance.now() - startedAt) / 1000;
    const fetched = (this.#ours.counters?.bytes ?? 0) - before;
    if (refusal) {
      this.#logger.warn("weights_refused", { seconds, fetched, reason: refusal.message });
      return refuse(response, refusal);
    }
    this.#logger.info("weights_staged", { seconds, fetched });
    response.writeHead(200, { "content-type": "application/json" }).end('{"success":true}');
  }

  async #load(body: string, request: IncomingMessage, response: ServerResponse): Promise<void> {
    const load = weightLoadOf(body);
    if (!load) return refuse(response, ONLY_LOADS);
    const folder = await this.#weights.folderOf(load.path);
    if (typeof folder !== "string") return refuse(response, folder);
    // Reading a folder takes a while, in which another controller may have come to lead.
    const refusal = this.#stale(request, "POST", "/collective_rpc");
    if (refusal) return refuse(response, refusal);
    await this.#weights.loading(() => this.#forward(request, response, load.at(folder)));
  }

  #stale(request: IncomingMessage, method: string, path: string): Refusal | undefined {
    if (!isSteering(method, path)) return undefined;
    const said = request.headers[EPOCH];
    if (said !== undefined && !/^\d{1,20}$/.test(String(said))) return NO_EPOCH;
    try {
      this.#fence.pass(BigInt(String(said ?? 0)));
      return undefined;
    } catch (error) {
      return { status: 409, type: "StaleEpoch", message: WhetstoneError.from(error).message };
    }
  }

  /** A caller that leaves ends the engine's request (I9). @returns the engine's status. */
  async #forward(request: IncomingMessage, response: ServerResponse, body: IncomingMessage | string): Promise<number> {
    const signal = leaving(response);
    const { method = "GET", url: path = "/" } = request;
    const sent = method === "GET" ? null : body;
    const { "content-length": length, ...rest } = endToEnd(request.headers);
    // A whole body is counted anew: it may be another one.
    const headers = typeof body === "string" || length === undefined ? rest : { ...rest, "content-length": length };
    // After a 500 vLLM closes the connection of a control call without saying so: nobody may use it again.
    const reset = typeof body === "string";
    const options = {
      path,
      method: method as "GET",
      headers,
      body: sent,
      reset,
      signal,
      opaque: response,
    };
    let status = 0;
    await this.#pool.stream(options, ({ statusCode, headers: answered, opaque }) => {
      const target = opaque;
      status = statusCode;
      target.writeHead(statusCode, endToEnd(answered));
      return target;
    });
    return status;
  }

  #failed(response: ServerResponse, path: string, error: unknown): void {
    if (response.destroyed) return;
    this.#logger.debug("engine_call_failed", { path, error });
    if (response.headersSent) response.destroy();
    else refuse(response, { status: 503, type: "ServiceUnavailable", message: "the engine does not answer" });
  }
}

const ONLY_LOADS: Refusal = {
  status: 403,
  type: "Forbidden",
  message: "/collective_rpc passes reload_weights and nothing else",
};
const NO_EPOCH: Refusal = {
  status: 400,
  type: "Bad Request",
  message: "header Whetstone-Epoch: must be a whole number",
};

export interface ForwarderOptions {
  readonly logger: Logger;
  readonly sources: WeightSources;
  /** The object store that versions are read from; "": none. */
  readonly store: string;
}

/** Ends with the caller's connection. */
function leaving(response: ServerResponse): AbortSignal {
  const gone = new AbortController();
  response.once("close", () => gone.abort());
  return gone.signal;
}

/** vLLM's error object. */
function refuse(response: ServerResponse, { status, type, message }: Refusal): void {
  const body = JSON.stringify({ error: { message, type, param: null, code: status } });
  response.writeHead(status, { "content-type": "application/json" }).end(body);
}

function endToEnd(headers: Record<string, string | string[] | undefined>): Record<string, string | string[]> {
  const kept = Object.entries(headers).filter((entry): entry is [string, string | string[]] => {
    return entry[1] !== undefined && !HOP_BY_HOP.has(entry[0]);
  });
  return Object.fromEntries(kept);
}

async function textOf(request: IncomingMessage): Promise<string> {
  const chunks: Buffer[] = [];
  let size = 0;
  for await (const chunk of request as AsyncIterable<Buffer>) {
    size += chunk.length;
    if (size > MAX_CONTROL_BODY)
      throw new WhetstoneError("INVALID_ARGUMENT", "the body of a control call is too large");
    chunks.push(chunk);
  }
  return Buffer.concat(chunks).toString();
}
