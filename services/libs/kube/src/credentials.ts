// SPDX-License-Identifier: Apache-2.0
import type { AgentOptions, RequestOptions } from "node:https";
import { type DispatcherOptions, KubeConfig } from "@kubernetes/client-node";
import { WhetstoneError } from "@whetstone/core";
import { Agent, type buildConnector, type Dispatcher, ProxyAgent } from "undici";

/** Tokens are read from their file again once a minute (by the client library), certificates once in this time. */
const KEPT_MS = 30_000;

/** An open end to the API server, for one call. */
export interface Line {
  readonly origin: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly dispatcher: Dispatcher;
}

/** Where the API server is and who we are. */
export interface Credentials {
  readonly namespace: string | undefined;
  readonly server: string;
  current(): Promise<{ readonly headers: Record<string, string>; readonly connect: DispatcherOptions }>;
  /** The server did not know us: read everything again before the next call. */
  refused(): void;
}

/** KUBECONFIG, ~/.kube/config or the pod's service account, in this order. */
export function loadCredentials(context?: string): Credentials {
  const config = new KubeConfig();
  config.loadFromDefault();
  if (context !== undefined) {
    const names = config.getContexts().map(({ name }) => name);
    if (!names.includes(context))
      throw new WhetstoneError("NOT_FOUND", `no context "${context}" in the kubeconfig, which has ${names.join(", ")}`);
    config.setCurrentContext(context);
  }
  return new ConfiguredCredentials(config);
}

/** A server that asks for no credentials: tests, and `kubectl proxy`. */
export function openServer(server: string): Credentials {
  const connect = { type: "none" } as const;
  return { namespace: undefined, server, current: () => Promise.resolve({ headers: {}, connect }), refused: () => {} };
}

class ConfiguredCredentials implements Credentials {
  readonly server: string;
  readonly namespace: string | undefined;
  readonly #config: KubeConfig;
  #kept: { at: number; headers: Record<string, string>; connect: DispatcherOptions } | undefined;

  constructor(config: KubeConfig) {
    const cluster = config.getCurrentCluster();
    if (!cluster)
      throw new WhetstoneError("FAILED_PRECONDITION", "no cluster is configured: set KUBECONFIG or name a context");
    this.#config = config;
    this.server = cluster.server.replace(/\/$/, "");
    this.namespace = config.getContextObject(config.getCurrentContext())?.namespace;
  }

  async current(): Promise<{ headers: Record<string, string>; connect: DispatcherOptions }> {
    const now = performance.now();
    if (this.#kept && now - this.#kept.at < KEPT_MS) return this.#kept;
    const options: RequestOptions = { headers: {} };
    await this.#config.applyToHTTPSOptions(options);
    const connect = this.#config.createDispatcherOptions(this.#config.getCurrentCluster(), options as AgentOptions);
    const headers = { ...(options.headers as Record<string, string>) };
    if (options.auth) headers["Authorization"] = `Basic ${Buffer.from(options.auth).toString("base64")}`;
    this.#kept = { at: now, headers, connect };
    return this.#kept;
  }

  refused(): void {
    this.#kept = undefined;
  }
}

/** Connections to the API server. New certificates mean new connections; the old ones end when their calls do. */
export class Lines implements Disposable {
  readonly #credentials: Credentials;
  #open: { key: string; dispatcher: Dispatcher } | undefined;

  constructor(credentials: Credentials) {
    this.#credentials = credentials;
  }

  async line(): Promise<Line> {
    const { headers, connect } = await this.#credentials.current();
    const key = JSON.stringify(connect);
    if (this.#open?.key !== key) {
      void this.#open?.dispatcher.close();
      this.#open = { key, dispatcher: dispatcherOf(connect) };
    }
    return { origin: this.#credentials.server, headers, dispatcher: this.#open.dispatcher };
  }

  refused(): void {
    this.#credentials.refused();
  }

  [Symbol.dispose](): void {
    void this.#open?.dispatcher.destroy();
    this.#open = undefined;
  }
}

function dispatcherOf(options: DispatcherOptions): Dispatcher {
  // A half-open connection must not hold a watch for ever: keep-alive probes, and the caller's own silence limit.
  const keepAlive = { keepAlive: true, keepAliveInitialDelay: 30_000, timeout: 10_000 };
  // Over HTTP/2 undici 8.12 lets the error of a call that was just given up reach nobody, and so the process, when its connection ends.
  const shared = { keepAliveTimeout: 20_000, pipelining: 1, allowH2: false };
  if (options.type === "none") return new Agent({ ...shared, connect: keepAlive });
  if (options.type === "agent") return new Agent({ ...shared, connect: { ...own(options.connect), ...keepAlive } });
  if (options.type === "proxy")
    return new ProxyAgent({ ...shared, uri: options.uri, requestTls: own(options.requestTls) });
  throw new WhetstoneError("UNIMPLEMENTED", "a SOCKS proxy to the API server is not supported: use an HTTP proxy");
}

/** The two libraries describe the same TLS options with different types. */
function own(tls: object): buildConnector.BuildOptions {
  return tls;
}
