// SPDX-License-Identifier: Apache-2.0
/**
 * A port of this machine that leads to a ready pod. Each connection is a port-forward of its own to the pod that is ready
 * then: when a pod goes, its connections end, and the caller's next one (gRPC reconnects by itself) finds its successor.
 */
import { once } from "node:events";
import { type AddressInfo, createServer, type Socket } from "node:net";
import { setTimeout as delay } from "node:timers/promises";
import { Writable } from "node:stream";

import { CoreV1Api, type KubeConfig, PortForward, type V1Pod } from "@kubernetes/client-node";

export interface TunnelTarget {
  readonly namespace: string;
  /** Label selector. */
  readonly selector: string;
  readonly port: number;
}

export interface Tunnel extends AsyncDisposable {
  /** "127.0.0.1:port". */
  readonly address: string;
}

/** A pod that starts again is back within seconds; a caller that is told "no" backs off for longer than that. */
const POD_WITHIN_MS = 8_000;
const LOOK_EVERY_MS = 250;

export async function openTunnel(config: KubeConfig, target: TunnelTarget): Promise<Tunnel> {
  const sockets = new Set<Socket>();
  const closing = new AbortController();
  const server = createServer({ noDelay: true, pauseOnConnect: true }, (socket) => {
    sockets.add(socket);
    socket.on("error", () => undefined); // Its close follows.
    socket.once("close", () => sockets.delete(socket));
    forward(config, target, socket, closing.signal).catch(() => socket.destroy());
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  return {
    address: `127.0.0.1:${(server.address() as AddressInfo).port}`,
    async [Symbol.asyncDispose]() {
      closing.abort();
      for (const socket of sockets) socket.destroy();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}

async function forward(config: KubeConfig, target: TunnelTarget, socket: Socket, signal: AbortSignal): Promise<void> {
  const pod = await readyPod(config, target, signal);
  const far = (await new PortForward(config).portForward(
    target.namespace,
    pod,
    [target.port],
    socket,
    refusals(socket),
    socket,
  )) as WebSocketLike;
  far.addEventListener("close", () => socket.destroy());
  socket.once("close", () => far.close());
  if (socket.destroyed || signal.aborted) far.close();
  else socket.resume();
}

/** The library's type names a package without types. */
interface WebSocketLike {
  addEventListener(event: "close", listener: () => void): void;
  close(): void;
}

/** What comes on the error stream means that the pod did not take the connection. */
function refusals(socket: Socket): Writable {
  return new Writable({
    write: (chunk: Buffer, _encoding, done) => {
      if (chunk.length > 0) socket.destroy();
      done();
    },
  });
}

async function readyPod(config: KubeConfig, target: TunnelTarget, signal: AbortSignal): Promise<string> {
  const api = config.makeApiClient(CoreV1Api);
  for (const end = performance.now() + POD_WITHIN_MS; performance.now() < end;) {
    const found = await api
      .listNamespacedPod({ namespace: target.namespace, labelSelector: target.selector })
      .catch(() => undefined);
    const pods = found?.items.filter(isReady) ?? [];
    const name = pods[Math.floor(Math.random() * pods.length)]?.metadata?.name;
    if (name !== undefined) return name;
    await delay(LOOK_EVERY_MS, undefined, { signal });
  }
  throw new Error("no pod is ready");
}

function isReady({ metadata, status }: V1Pod): boolean {
  const ready = status?.conditions?.find(({ type }) => type === "Ready");
  return ready?.status === "True" && metadata?.deletionTimestamp === undefined;
}
