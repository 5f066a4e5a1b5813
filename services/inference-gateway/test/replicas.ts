// SPDX-License-Identifier: Apache-2.0
// Several gateways that know one another, and a way between two of them that breaks on demand.
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { freePort } from "@whetstone/testkit";
import { type Gateway, startGateway } from "./harness.ts";
import type { GatewayConfig } from "../src/config.ts";

/** `handoverTo` of the n-th: in place of the others' own ports. */
export async function startReplicas(
  count: number,
  more: Partial<GatewayConfig> = {},
  handoverTo: (urls: readonly string[], index: number) => readonly string[] = (urls) => urls,
): Promise<Gateway[]> {
  const ports: { http: number; agents: number }[] = [];
  for (let i = 0; i < count; i++) ports.push({ http: await freePort(), agents: await freePort() });
  const peerUrl = ports.map(({ agents }) => `http://127.0.0.1:${agents}`);
  const urls = ports.map(({ http }) => `http://127.0.0.1:${http}`);
  const start = ({ http: httpPort, agents: agentPort }: (typeof ports)[number], index: number): Promise<Gateway> =>
    startGateway({
      ...{ drainMs: 10_000, httpPort, agentPort, peerUrl, ownUrl: peerUrl[index] },
      ...{ handoverUrl: [...handoverTo(urls, index)], ...more },
    });
  return await Promise.all(ports.map(start));
}

export interface Way extends AsyncDisposable {
  readonly url: string;
  /** Requests that came, by method and path. */
  readonly seen: string[];
}

/** What becomes of a request: it is passed on, its answer is cut off after the other side gave it, or nothing comes at all. */
export type Fate = "pass" | "cut" | "hang" | "refuse";

/** A way to a gateway that loses what a test wants. */
export async function startWay(target: () => string, fateOf: (path: string) => Fate): Promise<Way> {
  const seen: string[] = [];
  const server = createServer((request, response) => void pass(request, response));
  async function pass(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const { method, url = "/" } = request;
    seen.push(`${method} ${url}`);
    const fate = fateOf(url);
    if (fate === "hang") return;
    if (fate === "refuse") {
      response.writeHead(503).end("{}");
      return;
    }
    const answer = await askedAgain(target(), request).catch(() => undefined);
    const body = await answer?.arrayBuffer();
    if (answer === undefined || body === undefined || fate === "cut") {
      request.socket.destroy();
      return;
    }
    response
      .writeHead(answer.status, { "content-type": answer.headers.get("content-type") ?? "" })
      .end(Buffer.from(body));
  }
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    seen,
    async [Symbol.asyncDispose]() {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}

const HOP = ["host", "connection", "content-length", "transfer-encoding"];

async function askedAgain(origin: string, request: IncomingMessage): Promise<Response> {
  const { method = "GET", url = "/" } = request;
  const chunks: Buffer[] = [];
  for await (const chunk of request) chunks.push(chunk as Buffer);
  const headers = Object.entries(request.headers).filter(([name]) => !HOP.includes(name)) as [string, string][];
  const body = method === "POST" ? { body: Buffer.concat(chunks) } : {};
  return await fetch(origin + url, { method, headers, ...body });
}

/** At which of the gateways a session is. */
export async function ownersOf(session: string, gateways: readonly Gateway[]): Promise<number[]> {
  const here = gateways.map(async ({ httpUrl }) => {
    const answer = await fetch(`${httpUrl}/s/${session}`).catch(() => undefined);
    return answer?.status === 200;
  });
  return (await Promise.all(here)).flatMap((isHere, index) => (isHere ? [index] : []));
}
