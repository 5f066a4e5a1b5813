// SPDX-License-Identifier: Apache-2.0
import type { DescMethod } from "@bufbuild/protobuf";
import { Server, ServerCredentials, type ServiceDefinition, type UntypedServiceImplementation } from "@grpc/grpc-js";
import { sleep, WhetstoneError } from "@whetstone/core";
import type { Logger, Metrics } from "@whetstone/telemetry";
import type { TlsIdentity } from "@whetstone/tls";
import { HealthImplementation } from "grpc-health-check";
import { type CallScope, createCallScope } from "./call-scope.ts";
import { type Callers, guard } from "./callers.ts";
import { addReflection } from "./reflection.ts";
import { serverCredentials } from "./secure.ts";
import { adapt } from "./server-calls.ts";
import type { ServiceImplementation } from "./types.ts";
import { CHANNEL_OPTIONS, deserializer, pathOf, requestDeserializer, serializer } from "./wire.ts";

export interface ServerOptions {
  readonly host: string;
  /** 0 picks a free one. */
  readonly port: number;
  readonly services: readonly ServiceImplementation[];
  readonly logger: Logger;
  readonly metrics?: Metrics | undefined;
  /** Default: plain text, for loopback and for meshes that encrypt. */
  readonly tls?: TlsIdentity | undefined;
  /** Who may call, by certificate; default: everybody who has one. Without `tls` nobody is asked. */
  readonly callers?: Callers | undefined;
  /** Answers health, and nothing else, in plain text: probes of the kubelet have no certificates. */
  readonly healthPort?: number | undefined;
}

export interface RpcServer extends AsyncDisposable {
  readonly port: number;
  /** `host:port`, for `createClient`. */
  readonly address: string;
  readonly activeCalls: number;
  /** What health checks of one service hear; the process as a whole ("") stays healthy. */
  setServing(service: string, serving: boolean): void;
  /**
   * Reports NOT_SERVING and refuses new calls; calls in progress have `graceMs` to end, then their signals abort with
   * UNAVAILABLE. Disposing is `close(0)`. Idempotent.
   */
  close(graceMs: number): Promise<void>;
}

/** After their signals have aborted, handlers have this long before the connection is cut. */
const ABORT_GRACE_MS = 250;

/** Starts a server with health and reflection beside the given services. */
export async function startServer(options: ServerOptions): Promise<RpcServer> {
  const server = new Server(CHANNEL_OPTIONS);
  const scope = createCallScope(options.logger, options.metrics);
  const callers = options.tls && options.callers;
  for (const implementation of options.services) addService(server, implementation, scope, callers);
  const health = new HealthImplementation(servingStatus(options.services, "SERVING"));
  health.addToServer(server);
  addReflection(
    server,
    options.services.map(({ service }) => service),
  );
  const probed = options.healthPort ? await serveHealth(health, options.host, options.healthPort) : undefined;
  const port = await bind(server, options).catch((error: unknown) => {
    probed?.forceShutdown();
    throw error;
  });
  const address = hostPort(options.host, port);
  options.logger.info("rpc_server_listening", { address });
  let closing: Promise<void> | undefined;
  const close = (graceMs: number): Promise<void> => {
    for (const [name, state] of Object.entries(servingStatus(options.services, "NOT_SERVING"))) {
      health.setStatus(name, state);
    }
    closing ??= shutDown(server, scope, graceMs).finally(() => probed?.forceShutdown());
    return closing;
  };
  return {
    port,
    address,
    get activeCalls() {
      return scope.active;
    },
    setServing: (service, serving) => {
      if (closing === undefined) health.setStatus(service, serving ? "SERVING" : "NOT_SERVING");
    },
    close,
    [Symbol.asyncDispose]: () => close(0),
  };
}

type ServingStatus = "SERVING" | "NOT_SERVING";

function servingStatus(
  services: readonly ServiceImplementation[],
  state: ServingStatus,
): Record<string, ServingStatus> {
  return Object.fromEntries(["", ...services.map(({ service }) => service.typeName)].map((name) => [name, state]));
}

/** A server of its own: all services of one server are on all of its ports. */
async function serveHealth(health: HealthImplementation, host: string, port: number): Promise<Server> {
  const server = new Server();
  health.addToServer(server);
  await bind(server, { host, port });
  return server;
}

function addService(
  server: Server,
  { service, handlers }: ServiceImplementation,
  scope: CallScope,
  callers: Callers | undefined,
): void {
  const definition: Record<string, ServiceDefinition[string]> = {};
  const implementation: UntypedServiceImplementation = {};
  for (const method of service.methods) {
    definition[method.localName] = {
      path: pathOf(method),
      requestStream: !sendsOne(method),
      responseStream: method.methodKind === "server_streaming" || method.methodKind === "bidi_streaming",
      requestSerialize: serializer(method.input),
      requestDeserialize: sendsOne(method) ? requestDeserializer(method.input) : deserializer(method.input),
      responseSerialize: serializer(method.output),
      responseDeserialize: deserializer(method.output),
    };
    const handler = handlers[method.localName]; // A missing one is answered by grpc-js with UNIMPLEMENTED.
    if (handler === undefined) continue;
    const adapted = adapt(method, handler, scope);
    implementation[method.localName] = callers === undefined ? adapted : guard(adapted, method, callers);
  }
  server.addService(definition, implementation);
}

function sendsOne({ methodKind }: DescMethod): boolean {
  return methodKind === "unary" || methodKind === "server_streaming";
}

function bind(server: Server, { host, port, tls }: Pick<ServerOptions, "host" | "port" | "tls">): Promise<number> {
  const credentials = tls ? serverCredentials(tls) : ServerCredentials.createInsecure();
  return new Promise((resolve, reject) => {
    server.bindAsync(hostPort(host, port), credentials, (cause, bound) => {
      if (cause === null) {
        resolve(bound);
        return;
      }
      server.forceShutdown();
      reject(
        new WhetstoneError("UNAVAILABLE", `cannot listen on ${hostPort(host, port)}: ${cause.message}`, {
          retry: "never",
          context: { host, port },
          cause,
        }),
      );
    });
  });
}

function hostPort(host: string, port: number): string {
  return host.includes(":") ? `[${host}]:${port}` : `${host}:${port}`;
}

async function shutDown(server: Server, scope: CallScope, graceMs: number): Promise<void> {
  const drained = new Promise<void>((resolve) => {
    server.tryShutdown(() => {
      resolve();
    });
  });
  using timers = new AbortTimers();
  if (await timers.endsWithin(drained, graceMs)) return;
  scope.abortAll(new WhetstoneError("UNAVAILABLE", "the server is shutting down", { retry: "safe" }));
  if (await timers.endsWithin(drained, ABORT_GRACE_MS)) return;
  server.forceShutdown();
}

class AbortTimers implements Disposable {
  readonly #controller = new AbortController();

  async endsWithin(work: Promise<void>, ms: number): Promise<boolean> {
    const late = sleep(ms, this.#controller.signal).then(
      () => false,
      () => false,
    );
    return await Promise.race([work.then(() => true), late]);
  }

  [Symbol.dispose](): void {
    this.#controller.abort();
  }
}
