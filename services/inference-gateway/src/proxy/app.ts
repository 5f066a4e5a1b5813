// SPDX-License-Identifier: Apache-2.0
// Stands before an engine that is not ours (vLLM, SGLang) in the same pod: the engine listens on the pod's loopback alone, and this
// is what the network reaches. Data port: sampling. Control port: all of IEP/1, for the leading controller.
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import { createServer as createTlsServer } from "node:https";
import type { AddressInfo } from "node:net";
import { type StoreLocation, storeLocation } from "@whetstone/objects";
import { ArtifactService } from "@whetstone/proto/artifacts/v1/artifacts";
import { createClient } from "@whetstone/rpc";
import type { Logger } from "@whetstone/telemetry";
import { openTls, type Role, type TlsIdentity } from "@whetstone/tls";
import { Pool } from "undici";
import { rolesOnly } from "../http/https.ts";
import type { ProxyConfig } from "./config.ts";
import { FoundEngine } from "./engines/found-engine.ts";
import { Forwarder } from "./forwarder.ts";
import type { Port } from "./rules.ts";
import { OwnModels } from "./weights/own-models.ts";
import { WeightFetcher } from "./weights/weight-fetcher.ts";

export interface EngineProxy extends AsyncDisposable {
  readonly dataUrl: string;
  readonly controlUrl: string;
  /** "" when there is none. */
  readonly healthUrl: string;
}

const CALLERS: Record<Port, readonly Role[]> = { data: ["gateway", "controller"], control: ["controller"] };

/** Of the model that the engine starts with, however large. */
const MODEL_MS = 1_800_000;

export async function startProxy(config: ProxyConfig, { logger }: { logger: Logger }): Promise<EngineProxy> {
  const stack = new AsyncDisposableStack();
  const tls = stack.use(openTls(config.tlsPath, { logger }));
  const options = { connections: config.maxConnections, keepAliveTimeout: 4_000, headersTimeout: 0, bodyTimeout: 0 };
  const pool = new Pool(config.engineUrl, options);
  stack.defer(() => pool.destroy());
  const location = storeLocation(config, process.env);
  const [fetcher, models] = [fetcherOf(config, location, tls), modelsOf(config, tls, stack)];
  // The engine starts after this, and needs its model.
  if (models && config.modelPath !== undefined) await models.bring(config.modelPath, AbortSignal.timeout(MODEL_MS));
  const store = (fetcher && location?.url) ?? "";
  const engine = new FoundEngine(pool, config.engineKind, logger);
  const forwarder = new Forwarder(engine, { logger, sources: { fetcher, models }, store });
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

function fetcherOf({ weightsDir }: ProxyConfig, store: StoreLocation | undefined, tls: TlsIdentity | undefined) {
  return weightsDir === undefined ? undefined : new WeightFetcher({ folder: weightsDir, tls, store });
}

function modelsOf(
  { dataPath, artifactAddress }: ProxyConfig,
  tls: TlsIdentity | undefined,
  stack: AsyncDisposableStack,
) {
  if (dataPath === undefined || artifactAddress === undefined) return undefined;
  const source = stack.use(createClient(ArtifactService, artifactAddress, { tls: tls?.to("controller") }));
  return new OwnModels(dataPath, source);
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
