// SPDX-License-Identifier: Apache-2.0
// Shared MCP servers over streamable HTTP, through a real env-runner.
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import {
  createServer,
  type IncomingHttpHeaders,
  type IncomingMessage,
  type Server,
  type ServerResponse,
} from "node:http";
import type { AddressInfo } from "node:net";
import { text } from "node:stream/consumers";
import { sleep } from "@whetstone/core";
import { freePort, waitFor } from "@whetstone/testkit";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import {
  type EnvRunnerProcess,
  startEnvRunner,
} from "../../../services/rollout-orchestrator/test-support/env-runner-process.ts";
import { Episodes, SERVERS } from "./episodes.ts";

const EVERYTHING = `${SERVERS}/@modelcontextprotocol/server-everything/dist/index.js`;

describe("MCP servers over HTTP", { timeout: 60_000 }, () => {
  let server: ChildProcess;
  let url: string;
  let runner: EnvRunnerProcess;
  let episodes: Episodes;
  beforeAll(async () => {
    const port = await freePort();
    url = `http://127.0.0.1:${port}/mcp`;
    server = spawn(process.execPath, [EVERYTHING, "streamableHttp"], {
      env: { PORT: String(port) },
      stdio: ["ignore", "ignore", "pipe"],
    });
    let log = "";
    server.stderr?.on("data", (data: Buffer) => (log += data.toString()));
    await waitFor(() => log.includes("listening on port"), { what: "the server to listen", timeoutMs: 30_000 });
    runner = await startEnvRunner();
    episodes = new Episodes(runner.address);
  }, 60_000);
  afterAll(async () => {
    await episodes[Symbol.asyncDispose]();
    await runner[Symbol.asyncDispose]();
    server.kill("SIGKILL");
  });

  it("lists, calls, and plays episodes side by side", async () => {
    const played = Array.from({ length: 4 }, async (_, i) => {
      const episode = episodes.open({ url, tools: ["echo", "get-sum"] });
      expect(await episode.reset()).toMatchObject({ message: "", tools: ["echo", "get-sum"] });
      const { output } = await episode.call("echo", { message: `of ${i}` });
      await episode.close();
      return output;
    });
    expect(await Promise.all(played)).toEqual([0, 1, 2, 3].map((i) => `Echo: of ${i}`));
  });

  it("sends the job's headers and another token for each episode, ends its session, and follows no redirect", async () => {
    const { proxy, seen } = proxyTo(url);
    await once(proxy.listen(0, "127.0.0.1"), "listening");
    const at = `http://127.0.0.1:${(proxy.address() as AddressInfo).port}`;
    const args = { headers: { Authorization: "Bearer job" }, episodeHeader: "X-Episode" };
    for (let i = 0; i < 2; i += 1) {
      const episode = episodes.open({ url: `${at}/mcp`, ...args });
      expect((await episode.reset()).message).toBe("");
      expect((await episode.call("echo", { message: "a" })).output).toBe("Echo: a");
      await episode.close();
    }
    expect(new Set(seen.map(({ headers }) => headers.authorization))).toEqual(new Set(["Bearer job"]));
    expect(new Set(seen.map(({ headers }) => headers["x-episode"])).size).toBe(2);
    expect(seen.filter(({ method }) => method === "DELETE")).toHaveLength(2);
    seen.length = 0;
    expect(await episodes.open({ url: `${at}/moved`, ...args }).reset()).toMatchObject({ failed: "ENVIRONMENT" });
    proxy.closeAllConnections();
    proxy.close();
  });

  it("an answer that is lost on the way is the environment's failure, though the server still answers", async () => {
    const { proxy } = proxyTo(url);
    await once(proxy.listen(0, "127.0.0.1"), "listening");
    const at = `http://127.0.0.1:${(proxy.address() as AddressInfo).port}/cut`;
    const episode = episodes.open({ url: at, tools: ["echo"], callTimeoutMs: 2000 });
    expect((await episode.reset()).message).toBe("");
    expect(await episode.call("echo", { message: "a" })).toMatchObject({ failed: "ENVIRONMENT" });
    proxy.closeAllConnections();
    proxy.close();
  });

  it("a server that is not there is the environment's failure", async () => {
    const gone = createServer((_request, response) => response.destroy());
    await once(gone.listen(0, "127.0.0.1"), "listening");
    const { port } = gone.address() as AddressInfo;
    expect(await episodes.open({ url: `http://127.0.0.1:${port}/mcp` }).reset()).toMatchObject({
      failed: "ENVIRONMENT",
      message: expect.stringContaining(`127.0.0.1:${port}`) as string,
    });
    gone.close();
  });

  it("an answer above its bound is the environment's failure", async () => {
    const episode = episodes.open({ url, tools: ["echo"], maxMessageBytes: 20_000, callTimeoutMs: 600_000 });
    expect((await episode.reset()).message).toBe("");
    expect(await episode.call("echo", { message: "x".repeat(30_000) })).toMatchObject({
      failed: "ENVIRONMENT",
      message: expect.stringContaining("more than 20000 bytes") as string,
    });
  });

  it.each([
    [{}, "command", /give command/u],
    [{ url: "ftp://a" }, "url", /url/iu],
    [{ url: "http://a", command: ["node"] }, "command", /give command/u],
    [{ url: "http://a", network: ["a:1"] }, "network", /belongs to command/u],
    [{ command: ["node"], headers: { a: "b" } }, "headers", /belong to url/u],
    [{ command: ["node", "{servers}/a.js"] }, "command[1]", /WHETSTONE_MCP_SERVERS_PATH/u],
    [{ command: ["node"], callTimeoutMs: 0 }, "callTimeoutMs", />=1|at least|1/u],
    [{ command: ["node"], sandbox: {} }, "sandbox", /unknown/u],
  ])("refuses %j at %s", async (args, path, message) => {
    const { failed, field, message: said } = await episodes.open(args).reset();
    expect([failed, field, said]).toEqual(["TASK", `args.${path}`, expect.stringMatching(message)]);
  });

  it("a tool that the server does not have is the job's mistake", async () => {
    expect(await episodes.open({ url, tools: ["eco"] }).reset()).toMatchObject({
      failed: "TASK",
      message: expect.stringMatching(/tools: .*no tool "eco"; it has: .*echo/u) as string,
    });
  });

  it("a server that is killed within a call is the environment's failure", async () => {
    const episode = episodes.open({ url, tools: ["trigger-long-running-operation"], callTimeoutMs: 3000 });
    expect((await episode.reset()).message).toBe("");
    const called = episode.call("trigger-long-running-operation", { duration: 60, steps: 2 });
    await sleep(500);
    server.kill("SIGKILL");
    expect(await called).toMatchObject({ failed: "ENVIRONMENT" });
  });
});

interface SeenRequest {
  readonly method: string;
  readonly headers: IncomingHttpHeaders;
}

/** Passes everything on; `/moved` answers with a redirect, and `/cut` breaks off the answers of calls. */
function proxyTo(url: string): { readonly proxy: Server; readonly seen: SeenRequest[] } {
  const seen: SeenRequest[] = [];
  const pass = async (request: IncomingMessage, response: ServerResponse): Promise<void> => {
    const { method = "", headers } = request;
    seen.push({ method, headers });
    const body = await text(request);
    if (request.url === "/moved") response.writeHead(307, { location: url }).end();
    else if (request.url === "/cut" && body.includes('"tools/call"')) {
      response.writeHead(200, { "content-type": "text/event-stream" }).flushHeaders();
      setTimeout(() => response.destroy(), 100);
    } else {
      const answer = await fetch(url, { method, headers: plain(headers), ...(method === "POST" ? { body } : {}) });
      response.writeHead(answer.status, Object.fromEntries(answer.headers));
      if (answer.body) for await (const chunk of answer.body) response.write(chunk);
      response.end();
    }
  };
  const proxy = createServer((request, response) => {
    pass(request, response).catch(() => response.destroy());
  });
  return { proxy, seen };
}

/** Those that are about the connection are not passed on. */
function plain(headers: IncomingHttpHeaders): Record<string, string> {
  const own = new Set(["host", "connection", "content-length", "transfer-encoding", "accept-encoding", "keep-alive"]);
  return Object.fromEntries(Object.entries(headers).filter(([name]) => !own.has(name))) as Record<string, string>;
}
