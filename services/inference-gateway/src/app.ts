// SPDX-License-Identifier: Apache-2.0
import { randomBytes } from "node:crypto";
import type { AddressInfo } from "node:net";
import { deriveSeed } from "@whetstone/core";
import type { FastifyInstance } from "fastify";
import { ArtifactService } from "@whetstone/proto/artifacts/v1/artifacts";
import { type Callers, createClient, startServer } from "@whetstone/rpc";
import { createMetrics, type Logger, serveMetrics } from "@whetstone/telemetry";
import { connectorTo, openTls, type TlsIdentity } from "@whetstone/tls";
import { EngineClient } from "./engine/engine-client.ts";
import { HealthProbe } from "./fleet/health-probe.ts";
import { ArtifactFiles } from "./codec/artifact-files.ts";
import { ModelFolders } from "./codec/model-folder.ts";
import type { GatewayConfig } from "./config.ts";
import type { CallScope } from "./completion/call-scope.ts";
import type { CompletionDeps, Codec } from "./completion/complete.ts";
import { Fleet } from "./fleet/fleet.ts";
import { Departure } from "./handover/departure.ts";
import { HandoverPeers } from "./handover/handover-peers.ts";
import { ReceivedSessions } from "./handover/received-sessions.ts";
import { FeedbackBox } from "./served/feedback-box.ts";
import { ServedNames } from "./served/served-names.ts";
import { SessionTable } from "./sessions/session-table.ts";
import { SharedBySession } from "./sessions/shared-calls.ts";
import { FleetControl } from "./fleet/fleet-control.ts";
import { fleetService } from "./fleet/fleet-service.ts";
import { DIALECTS } from "./dialects/index.ts";
import { createAgentsServer } from "./http/agents-server.ts";
import { Exchange } from "./http/exchange.ts";
import { Forwarder } from "./peers/forward.ts";
import { createHttpServer } from "./http/http-server.ts";
import { LoadReporter } from "./fleet/load-report.ts";
import { gatewayMetrics } from "./http/metrics.ts";
import { PeerRelay } from "./peers/peer-relay.ts";

export interface GatewayApp extends AsyncDisposable {
  /** For our own services, e.g. "http://127.0.0.1:8080". */
  readonly httpUrl: string;
  /** For agents. Undefined: there is no such port. */
  readonly agentsUrl: string | undefined;
  /** Of FleetService, "host:port". */
  readonly grpcAddress: string;
  /** Ends everything at once. */
  readonly close: () => Promise<void>;
  /** Takes no new sessions, hands those there are over or waits for them, as long as the settings say, and closes. */
  readonly leave: () => Promise<void>;
}

/** Starts a gateway; it answers as soon as this resolves. */
export async function startApp(config: GatewayConfig, deps: { readonly logger: Logger }): Promise<GatewayApp> {
  const { logger } = deps;
  const tls = openTls(config.tlsPath, { logger });
  const parts = assemble(config, logger, tls);
  const { fleet, sessions, engines, folders, source, control, http, agents, registered } = parts;
  const { departure, received, forwarder } = parts;
  for (const entry of config.engines) registerEntry(control, entry);
  const probe = new HealthProbe(fleet, engines, {
    intervalMs: config.healthIntervalMs,
    timeoutMs: config.healthTimeoutMs,
  });
  const sweeper = setInterval(() => sessions.sweep(Date.now()), SWEEP_MS).unref();
  const rpc = await startServer({
    host: config.host,
    port: config.grpcPort,
    services: [fleetService(control)],
    logger,
    tls,
    callers: CALLERS,
    healthPort: config.healthPort,
  });
  const scrape = config.metricsPort
    ? await serveMetrics(registered, { host: config.host, port: config.metricsPort })
    : undefined;
  await http.listen({ host: config.host, port: config.httpPort, backlog: BACKLOG });
  await agents?.listen({ host: config.host, port: config.agentPort ?? 0, backlog: BACKLOG });
  const close = async (): Promise<void> => {
    probe.stop();
    clearInterval(sweeper);
    // Closing connections cancels their calls, which aborts the engines' requests (I9).
    await Promise.all([http.close(), agents?.close()]);
    const opened = [folders, source, forwarder, scrape];
    received[Symbol.dispose]();
    await Promise.all([rpc.close(0), engines.close(), ...opened.map((each) => each?.[Symbol.asyncDispose]())]);
    tls?.[Symbol.dispose]();
  };
  const leave = async (): Promise<void> => {
    await departure.run(config.drainMs);
    await close();
  };
  const urlOf = ({ server }: FastifyInstance): string =>
    `${tls ? "https" : "http"}://${config.host}:${(server.address() as AddressInfo).port}`;
  const urls = { httpUrl: urlOf(http), agentsUrl: agents && urlOf(agents) };
  return { ...urls, grpcAddress: rpc.address, close, leave, [Symbol.asyncDispose]: close };
}

/** The parts, wired; nothing listens or ticks yet. */
function assemble(config: GatewayConfig, logger: Logger, tls: TlsIdentity | undefined) {
  const { drainQuietMs, requestTimeoutMs } = config;
  const fleet = new Fleet(config);
  fleet.onQuarantine = ({ id, reason }) => {
    logger.warn("engine_quarantined", { engine: id, reason });
  };
  const sessions = new SessionTable(config.maxSessions, config.sessionIdleMs);
  const served = new ServedNames();
  const idPrefix = `${randomBytes(4).toString("hex")}-`;
  const feedback = new FeedbackBox(`f-${idPrefix}`);
  const engines = new EngineClient(config.maxInFlightPerEngine, tls && connectorTo(tls.to("engine")));
  const codecs = new Map<string, Codec>();
  const { artifactAddress } = config;
  const source = artifactAddress
    ? createClient(ArtifactService, artifactAddress, { tls: tls?.to("controller") })
    : undefined;
  const folders = new ModelFolders(config.answerFormat, source && new ArtifactFiles(source));
  const control = new FleetControl({
    fleet,
    sessions,
    served,
    feedback,
    engines,
    codecs,
    folders,
    logger,
    drainQuietMs,
  });
  const registered = createMetrics({ component: "inference-gateway" });
  const metrics = gatewayMetrics(registered, fleet, sessions);
  fleet.onRefused = metrics.onRefused;
  const { onFork, onResubmission, onLabelMismatch, onToolCall, onTokens } = metrics;
  const counted = { onFork, onResubmission, onLabelMismatch, onToolCall, onTokens };
  const chat: CompletionDeps = {
    ...counted,
    now: () => Date.now(),
    pause,
    attemptSeed: deriveSeed,
    fleet,
    engines,
    codecs,
  };
  const logError = (event: string, error: unknown): void => {
    logger.error(event, { error });
  };
  const { maxBodyBytes, receiveTimeoutMs, maxConnections } = config;
  const options = { tls, maxBodyBytes, receiveTimeoutMs, maxConnections };
  const load = new LoadReporter(fleet, engines);
  const forwarder = new Forwarder(tls && connectorTo(tls.to("gateway")));
  const peers = peersOf(config, forwarder);
  const shared = new SharedBySession();
  const context = {
    chat,
    sessions,
    shared,
    served,
    feedback,
    metrics,
    load,
    peers,
    forwarder,
    requestTimeoutMs,
    logError,
  };
  // The same at both ports: a session may be used at either, and requests have one numbering.
  const exchanges = DIALECTS.map((dialect) => new Exchange(context, dialect, idPrefix));
  const received = new ReceivedSessions({
    ...{ sessions, shared, now: chat.now, knows: (policy) => codecs.has(policy) },
    onOwned: ({ name }) => {
      metrics.onHandover("received");
      logger.info("session_received", { session: name });
    },
  });
  const departure = new Departure({
    ...{ sessions, shared, logger, onGone: metrics.onHandover, forwarding: () => forwarder.running },
    arriving: () => received.size,
    peers: config.handoverUrl.length > 0 ? new HandoverPeers({ urls: config.handoverUrl, forwarder }) : undefined,
  });
  const http = createHttpServer(context, exchanges, { ...options, handover: { received, agentsUrl: config.ownUrl } });
  const agents = config.agentPort === undefined ? undefined : createAgentsServer(context, exchanges, options);
  const handover = { departure, received, forwarder };
  return { fleet, sessions, engines, folders, source, control, http, agents, registered, ...handover };
}

function peersOf({ ownUrl, peerUrl: peerUrls }: GatewayConfig, forwarder: Forwarder): PeerRelay | undefined {
  if (ownUrl === undefined || peerUrls.length === 0) return undefined;
  return new PeerRelay({ ownUrl, peerUrls, forwarder });
}

const CALLERS: Callers = { controller: true, client: ["listEngines"], console: ["listEngines"] };
const SWEEP_MS = 10_000;
/** An orchestrator opens hundreds of connections in one moment. */
const BACKLOG = 4096;

function registerEntry(control: FleetControl, entry: string): void {
  const at = entry.indexOf("=");
  control.register(entry.slice(0, at), new URL(entry.slice(at + 1)).origin);
}

function pause(ms: number, scope: CallScope): Promise<void> {
  return new Promise((resolve) => {
    const timer = setTimeout(() => {
      scope.onCancel();
      resolve();
    }, ms);
    scope.onCancel(() => {
      clearTimeout(timer);
      resolve();
    });
  });
}
