// SPDX-License-Identifier: Apache-2.0
import { join } from "node:path";
import { credsAuthenticator, type NatsConnection } from "@nats-io/nats-core";
import { readFileSync } from "node:fs";
import { connect, type NodeConnectionOptions } from "@nats-io/transport-node";
import { exponentialBackoff, raceSignal, sleep, WhetstoneError } from "@whetstone/core";
import type { Logger } from "@whetstone/telemetry";
import { roleName, type TlsIdentity } from "@whetstone/tls";

export interface ConnectOptions {
  readonly servers: string | readonly string[];
  /** Shown by the server's monitoring: the service's name. */
  readonly name: string;
  readonly logger: Logger;
  /** Of the first connection; default 5,000. */
  readonly timeoutMs?: number;
  readonly signal?: AbortSignal | undefined;
  /** Who we are, to a server that maps certificates to users. */
  readonly tls?: TlsIdentity | undefined;
  /** A credentials file, for a server that is not ours; then `tls` is not used. */
  readonly credentialsPath?: string | undefined;
  /** Authorities of that server's certificate, PEM. */
  readonly caPath?: string | undefined;
  /** More, as the client takes it. */
  readonly connection?: Partial<NodeConnectionOptions>;
}

/** A connection that closes with its scope: it drains for at most two seconds, then closes. */
export type Nats = NatsConnection & AsyncDisposable;

const DRAIN_MS = 2_000;

/** Connects, or fails clearly at the first attempt; later losses are repaired for ever, with back-off. */
export async function connectNats(options: ConnectOptions): Promise<Nats> {
  const servers = typeof options.servers === "string" ? options.servers.split(",") : [...options.servers];
  const backoff = exponentialBackoff({ initialMs: 100, maxMs: 3_000 });
  let attempt = 0;
  const connecting = connect({
    pingInterval: 10_000,
    maxPingOut: 2,
    ...securityOf(options),
    ...options.connection,
    servers,
    name: options.name,
    // Rights are by role, and so are the places where answers arrive: nobody hears another's.
    inboxPrefix: `_INBOX_${options.tls?.role ?? options.name}`,
    timeout: options.timeoutMs ?? 5_000,
    maxReconnectAttempts: -1,
    ignoreAuthErrorAbort: true,
    noAsyncTraces: true, // Two errors a request, made in case they are needed, were a quarter of a dispatch's CPU time.
    reconnectDelayHandler: () => 50 + backoff((attempt += 1)),
  });
  const connection = await raceSignal(connecting, options.signal).catch((cause: unknown) => {
    throw refused(servers, cause);
  });
  void logStatus(connection, options.logger, () => (attempt = 0));
  return Object.assign(connection, { [Symbol.asyncDispose]: () => close(connection) });
}

/** Files, not their contents: a reconnect must use the newest. */
function securityOf({ tls, credentialsPath, caPath }: ConnectOptions): Partial<NodeConnectionOptions> {
  const credentials = credentialsPath
    ? { authenticator: credsAuthenticator(() => readFileSync(credentialsPath)) }
    : undefined;
  if (credentials || caPath) return { ...credentials, ...(caPath && { tls: { caFile: caPath } }) };
  if (tls === undefined) return {};
  const in_ = (name: string): string => join(tls.folder, name);
  const files = { caFile: in_("ca.crt"), certFile: in_("tls.crt"), keyFile: in_("tls.key") };
  // The client hands what it does not know to node:tls. A role and not an address: servers of a cluster name each other by IP.
  return { tls: { ...files, servername: roleName("nats") } as NonNullable<NodeConnectionOptions["tls"]> };
}

function refused(servers: readonly string[], cause: unknown): WhetstoneError {
  if (cause instanceof WhetstoneError) return cause;
  const reason = cause instanceof Error ? cause.message : String(cause);
  return new WhetstoneError("UNAVAILABLE", `cannot connect to NATS at ${servers.join(", ")}: ${reason}`, {
    retry: "safe",
    context: { servers },
    cause,
  });
}

async function logStatus(connection: NatsConnection, logger: Logger, onReconnect: () => void): Promise<void> {
  for await (const status of connection.status()) {
    if (status.type === "disconnect") logger.warn("nats_disconnected", { server: status.server });
    if (status.type === "reconnect") {
      onReconnect();
      logger.info("nats_reconnected", { server: status.server });
    }
    if (status.type === "error") logger.warn("nats_error", { error: status.error });
  }
}

async function close(connection: NatsConnection): Promise<void> {
  if (connection.isClosed()) return;
  const timer = new AbortController();
  const drained = connection.isDraining() ? Promise.resolve() : connection.drain().catch(() => undefined);
  await Promise.race([drained, sleep(DRAIN_MS, timer.signal).catch(() => undefined)]);
  timer.abort();
  await connection.close();
}

/**
 * @param needed  lowest version, such as `2.12.0`.
 * @throws FAILED_PRECONDITION naming the version found, the version needed and what to do.
 */
export function requireServerVersion(connection: NatsConnection, needed: string): void {
  const found = connection.info?.version ?? "unknown";
  if (compareVersions(found, needed) >= 0) return;
  throw new WhetstoneError(
    "FAILED_PRECONDITION",
    `NATS server ${found} at ${connection.getServer()} is too old: Whetstone needs ${needed} or newer. ` +
      `Upgrade nats-server, or point natsUrl (WHETSTONE_NATS_URL) at a newer one.`,
    { context: { found, needed } },
  );
}

/** Numeric parts only: `2.12.0-RC.1` counts as 2.12.0; what has no number is older than everything. */
function compareVersions(a: string, b: string): number {
  const parts = (version: string): number[] => (/^v?(\d+)\.(\d+)\.(\d+)/.exec(version)?.slice(1) ?? []).map(Number);
  const left = parts(a);
  return parts(b).reduce((result, part, i) => (result === 0 ? (left[i] ?? -1) - part : result), 0);
}
