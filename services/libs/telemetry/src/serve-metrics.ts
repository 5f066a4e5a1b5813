// SPDX-License-Identifier: Apache-2.0
import { createServer, type Server, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { WhetstoneError } from "@whetstone/core";
import type { Metrics } from "./metrics.ts";

export interface MetricsServerOptions {
  readonly host: string;
  /** 0 picks a free one. */
  readonly port: number;
}

export interface MetricsServer extends AsyncDisposable {
  readonly port: number;
  readonly url: string;
}

/** Serves `/metrics`. */
export async function serveMetrics(
  metrics: Pick<Metrics, "render"> & { readonly registry: { readonly contentType: string } },
  options: MetricsServerOptions,
): Promise<MetricsServer> {
  const server = createServer((request, response) => {
    respond(request.url, response).catch((error: unknown) => {
      response.writeHead(500).end(String(error));
    });
  });
  async function respond(url: string | undefined, response: ServerResponse): Promise<void> {
    const path = url?.split("?")[0];
    if (path === "/metrics") {
      const text = await metrics.render();
      response.writeHead(200, { "content-type": metrics.registry.contentType }).end(text);
    } else {
      response.writeHead(404).end();
    }
  }
  await listen(server, options);
  const { port } = server.address() as AddressInfo;
  const host = options.host.includes(":") ? `[${options.host}]` : options.host;
  return {
    port,
    url: `http://${host}:${port}`,
    [Symbol.asyncDispose]: () => close(server),
  };
}

function listen(server: Server, { host, port }: MetricsServerOptions): Promise<void> {
  return new Promise((resolve, reject) => {
    server.once("error", (cause) => {
      reject(
        new WhetstoneError("UNAVAILABLE", `cannot listen on ${host}:${port}: ${cause.message}`, {
          retry: "never",
          cause,
        }),
      );
    });
    server.listen(port, host, resolve);
  });
}

function close(server: Server): Promise<void> {
  return new Promise((resolve) => {
    server.close(() => {
      resolve();
    });
    server.closeAllConnections();
  });
}
