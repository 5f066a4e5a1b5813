// SPDX-License-Identifier: Apache-2.0
// Stands before an engine that is not ours (vLLM) in the same pod: the engine listens on the pod's loopback alone, and this
// is what the network reaches. Data port: sampling. Control port: all of IEP/1, for the leading controller.
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import { createServer as createTlsServer } from "node:https";
import type { AddressInfo } from "node:net";
import { WhetstoneError } from "@whetstone/core";
import type { Logger } from "@whetstone/telemetry";
import { openTls, type Role, type TlsIdentity } from "@whetstone/tls";
import { Pool } from "undici";
import { EpochFence } from "../fleet/epoch-fence.ts";
import { rolesOnly } from "../http/https.ts";
import type { ProxyConfig } from "./config.ts";
import { withModalities } from "./model-card.ts";
import { isSteering, type Port, type Refusal, refusalOf, weightLoadOf } from "./rules.ts";
import { WeightGuard } from "./weight-guard.ts";

export interface EngineProxy extends AsyncDisposable {
  readonly dataUrl: string;
  readonly controlUrl: string;
  /** "" when there is none. */
  readonly healthUrl: string;
}

const CALLERS: Record<Port, readonly Role[]> = { data: ["gateway", "controller"], control: ["controller"] };
/** Of a control call; sampling may be long. */
const MAX_CONTROL_BODY = 1 << 20;
const EPOCH = "whetstone-epoch";
const MODELS = "/v1/models";
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

export async function startProxy(config: ProxyConfig, { logger }: { logger: Logger }): Promise<EngineProxy> {
  const stack = new AsyncDisposableStack();
  const tls = stack.use(openTls(config.tlsPath, { logger }));
  const options = { connections: config.maxConnections, keepAliveTimeout: 4_000, headersTimeout: 0, bodyTimeout: 0 };
  const pool = new Pool(config.engineUrl, options);
  stack.defer(() => pool.destroy());
  const forwarder = new Forwarder(pool, logger);
  const serve = async (port: Port, at: number, identity: TlsIdentity | undefined): Promise<string> => {
    const server = listenerOf(
      identity,
      CALLERS[port],
      (request, response) => void forwarder.pass(port, request, response),
    );
    await listen(server, config.host, at);
    stack.defer(() => void closeServer(server));
    return `${identity ? "https" : "http"}://${config.host}:${(server.address() as AddressInfo).port}`;
  };
  const [dataUrl, controlUrl] = [
    await serve("data", config.dataPort, tls),
    await serve("control", config.controlPort, tls),
  ];
  const healthUrl = config.healthPort ? await serveHealth(config, forwarder, stack) : "";
  return { dataUrl, controlUrl, healthUrl, [Symbol.asyncDispose]: () => stack.disposeAsync() };
}

/** Liveness and metrics for those without certificates. */
async function serveHealth(config: ProxyConfig, forwarder: Forwarder, stack: AsyncDisposableStack): Promise<string> {
  const server = createServer((request, response) => {
    if (request.url === "/health" || request.url === "/metrics") void forwarder.pass("data", request, response);
    else response.writeHead(404).end();
  });
  await listen(server, config.host, config.healthPort);
  stack.defer(() => void closeServer(server));
  return `http://${config.host}:${(server.address() as AddressInfo).port}`;
}

/** Lets calls through to the engine, or says why not. */
class Forwarder {
  readonly #pool: Pool;
  readonly #logger: Logger;
  readonly #fence = new EpochFence();
  readonly #weights: WeightGuard;

  constructor(pool: Pool, logger: Logger) {
    this.#pool = pool;
    this.#weights = new WeightGuard(pool);
    this.#logger = logger;
  }

  async pass(port: Port, request: IncomingMessage, response: ServerResponse): Promise<void> {
    const { method = "GET", url = "/" } = request;
    const path = url.split("?", 1)[0] ?? "/";
    try {
      const refusal = refusalOf(port, method, path) ?? this.#stale(request, method, path);
      if (refusal) return refuse(response, refusal);
      if (path === MODELS) return await this.#tellModels(response);
      if (!isSteering(method, path)) return void (await this.#forward(request, response, request));
      await this.#steer(path, request, response);
    } catch (error) {
      this.#failed(response, path, error);
    }
  }

  async #tellModels(response: ServerResponse): Promise<void> {
    const { statusCode, body } = await this.#pool.request({ path: MODELS, method: "GET" });
    const text = await withModalities(await body.text());
    response.writeHead(statusCode, { "content-type": "application/json" }).end(text);
  }

  async #steer(path: string, request: IncomingMessage, response: ServerResponse): Promise<void> {
    const body = await textOf(request);
    const pass = (): Promise<number> => this.#forward(request, response, body);
    if (path !== "/collective_rpc") {
      const refusal = this.#weights.refuses(path);
      return refusal ? refuse(response, refusal) : void (await pass());
    }
    const folder = weightLoadOf(body);
    // Reading a folder takes a while, in which another controller may have come to lead.
    const unfit = folder === undefined ? ONLY_LOADS : await this.#weights.check(folder);
    const refusal = unfit ?? this.#stale(request, "POST", path);
    return refusal ? refuse(response, refusal) : this.#weights.loading(pass);
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
    const gone = new AbortController();
    response.once("close", () => gone.abort());
    const { method = "GET", url: path = "/" } = request;
    const sent = method === "GET" ? null : body;
    const headers = endToEnd(request.headers);
    // After a 500 vLLM closes the connection of a control call without saying so: nobody may use it again.
    const reset = typeof body === "string";
    const options = {
      path,
      method: method as "GET",
      headers,
      body: sent,
      reset,
      signal: gone.signal,
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

type Handler = (request: IncomingMessage, response: ServerResponse) => void;

function listenerOf(tls: TlsIdentity | undefined, callers: readonly Role[], handler: Handler): Server {
  const limits = { keepAliveTimeout: 120_000, requestTimeout: 0 };
  if (!tls) return createServer(limits, handler);
  const secured = rolesOnly(tls, callers);
  const server = createTlsServer({ ...limits, ...secured.options() }, handler);
  secured.watch({ server });
  return server;
}

function listen(server: Server, host: string, port: number): Promise<void> {
  return new Promise((resolve, reject) => {
    server.once("error", reject);
    server.listen({ host, port, backlog: 4096 }, resolve);
  });
}

function closeServer(server: Server): void {
  server.close();
  server.closeAllConnections();
}
