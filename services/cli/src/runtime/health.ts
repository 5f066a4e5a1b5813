// SPDX-License-Identifier: Apache-2.0
/** Is a service ready? Asked the way each service answers: gRPC health, HTTP, or NATS's greeting. */
import { connect as connectHttp2 } from "node:http2";
import type { IncomingHttpHeaders } from "node:http2";
import { connect as connectTcp } from "node:net";

import { HOST } from "./ports.ts";

export type HealthCheck =
  | { readonly kind: "grpc"; readonly port: number }
  | { readonly kind: "http"; readonly port: number; readonly paths: readonly string[] }
  | { readonly kind: "nats"; readonly port: number };

const ATTEMPT_MS = 1_000;

/** One attempt; false for every kind of "not yet". */
export async function isHealthy(check: HealthCheck): Promise<boolean> {
  try {
    if (check.kind === "grpc") return await grpcHealthy(check.port);
    if (check.kind === "nats") return await natsGreets(check.port);
    return await httpHealthy(check.port, check.paths);
  } catch {
    return false;
  }
}

/** Services name it /healthz, engines /health: the first that answers 200 counts. */
async function httpHealthy(port: number, paths: readonly string[]): Promise<boolean> {
  for (const path of paths) {
    const response = await fetch(`http://${HOST}:${port}${path}`, { signal: AbortSignal.timeout(ATTEMPT_MS) });
    await response.body?.cancel();
    if (response.ok) return true;
  }
  return false;
}

/** NATS speaks first: "INFO {…}". */
function natsGreets(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connectTcp({ port, host: HOST, timeout: ATTEMPT_MS });
    const finish = (healthy: boolean): void => {
      socket.destroy();
      resolve(healthy);
    };
    socket.once("data", (data) => finish(data.toString("latin1").startsWith("INFO ")));
    socket.once("error", () => finish(false));
    socket.once("timeout", () => finish(false));
    socket.once("close", () => finish(false));
  });
}

const GRPC_OK = "0";
/** A server without the health service is up all the same. */
const GRPC_UNIMPLEMENTED = "12";
/** An empty HealthCheckRequest in gRPC's frame: not compressed, length 0. */
const EMPTY_REQUEST = Buffer.alloc(5);
/** HealthCheckResponse { status: SERVING }. */
const SERVING = Buffer.from([0x08, 0x01]);

/** grpc.health.v1.Health/Check, spoken directly: two bytes do not need a client library in every poll. */
function grpcHealthy(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const session = connectHttp2(`http://${HOST}:${port}`);
    const timer = setTimeout(() => finish(false), ATTEMPT_MS);
    const finish = (healthy: boolean): void => {
      clearTimeout(timer);
      session.destroy();
      resolve(healthy);
    };
    session.once("error", () => finish(false));
    const call = session.request({
      ":method": "POST",
      ":path": "/grpc.health.v1.Health/Check",
      "content-type": "application/grpc",
      te: "trailers",
    });
    const body: Buffer[] = [];
    let status: string | undefined;
    call.on("response", (headers) => (status = textOf(headers["grpc-status"]) ?? status));
    call.on("trailers", (trailers: IncomingHttpHeaders) => (status = textOf(trailers["grpc-status"]) ?? status));
    call.on("data", (chunk: Buffer) => body.push(chunk));
    call.once("error", () => finish(false));
    call.once("end", () => setImmediate(() => finish(isServing(status, Buffer.concat(body)))));
    call.end(EMPTY_REQUEST);
  });
}

function isServing(status: string | undefined, body: Buffer): boolean {
  return status === GRPC_UNIMPLEMENTED || (status === GRPC_OK && body.subarray(5).equals(SERVING));
}

function textOf(value: string | string[] | undefined): string | undefined {
  return typeof value === "string" ? value : undefined;
}
