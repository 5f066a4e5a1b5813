// SPDX-License-Identifier: Apache-2.0
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { ScriptedClient } from "../../test-support/stand-ins.ts";
import { AgentWorkflowEngine, type AgentWorkflowEngineOptions, type Episode, httpAgent } from "../index.ts";

const ENDPOINT = { baseUrl: "http://model/s/1/v1", apiKey: "k", model: "m" };
const TASK = { id: "t", payload: { question: "6*7" } };

interface Asked {
  readonly headers: IncomingMessage["headers"];
  readonly body: Record<string, unknown> & { readonly callback: string };
}

let server: Server;
let url: string;
let asked: Asked[];
let respond: (response: ServerResponse, call: Asked) => void;
const agent = httpAgent();

beforeEach(async () => {
  asked = [];
  server = createServer((request, response) => {
    let text = "";
    request.on("data", (chunk: Buffer) => (text += chunk.toString()));
    request.on("end", () => {
      const call = { headers: request.headers, body: JSON.parse(text) as Asked["body"] };
      asked.push(call);
      respond(response, call);
    });
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/play?x=1`;
});
afterEach(() => {
  server.closeAllConnections();
  server.close();
});

function play(options: Partial<AgentWorkflowEngineOptions> = {}, to = url): Promise<Episode> {
  const rolloutClient = Object.assign(new ScriptedClient(), { endpoint: ENDPOINT });
  const workflowArgs = { url: to, headers: { authorization: "Bearer x" } };
  const engine = new AgentWorkflowEngine({ rolloutClient, workflow: agent, workflowArgs, retryLimit: 0, ...options });
  return engine.runEpisode({ id: "job/g0/s1", task: TASK, seed: 7 });
}

function deliver(to: string, body: string): Promise<number> {
  return fetch(to, { method: "POST", body }).then(({ status }) => status);
}

describe("an agent behind a URL", () => {
  it("gets the task and the model's address, and answers with the result", async () => {
    respond = (response) => response.end(JSON.stringify({ reward: 0.5 }));
    expect((await play()).reward).toBe(0.5);
    expect(asked[0]).toMatchObject({
      headers: { authorization: "Bearer x", "idempotency-key": "job/g0/s1.1" },
      body: { ...ENDPOINT, task: TASK, seed: 7, episodeId: "job/g0/s1", try: 1 },
    });
    expect(Object.keys(asked[0]?.body ?? {})).not.toContain("args");
  });

  it("may deliver later, once, to whoever knows the address", async () => {
    const statuses: number[] = [];
    respond = (response, { body: { callback } }) => {
      response.writeHead(202).end();
      void (async () => {
        statuses.push(await deliver(`${callback}x`, "1"), await deliver(callback, "{"));
        statuses.push(await deliver(callback, "0.25"), await deliver(callback, "9"));
      })();
    };
    expect((await play()).reward).toBe(0.25);
    await expect.poll(() => statuses).toEqual([404, 400, 204, 404]);
  });

  it("that never delivers is ended by the deadline, and comes too late afterwards", async () => {
    respond = (response) => response.writeHead(202).end();
    expect((await play({ trajectoryTimeoutMs: 50 })).terminationReason).toBe("DEADLINE");
    expect(await deliver(asked[0]?.body.callback ?? "", "1")).toBe(404);
  });

  it("sees the connection close when the episode is cancelled", async () => {
    const closed = Promise.withResolvers<void>();
    respond = (response) => response.once("close", closed.resolve);
    expect((await play({ trajectoryTimeoutMs: 50 })).terminationReason).toBe("DEADLINE");
    await closed.promise;
  });
});

describe("asking again", () => {
  it.each([429, 503])("after %i: it has not begun", async (status) => {
    respond = (response) => response.writeHead(asked.length === 1 ? status : 200).end("1");
    expect([(await play()).reward, asked.length]).toEqual([1, 2]);
  });

  it("never after a connection that broke: the next try has a session of its own", async () => {
    respond = (response) => response.destroy();
    const { failure } = await play();
    expect([failure.class, asked.length]).toEqual(["INFRASTRUCTURE", 1]);
  });

  it("gives up where nobody listens", async () => {
    server.close();
    const { failure } = await play();
    expect([failure.class, failure.message]).toEqual(["INFRASTRUCTURE", expect.stringContaining("no agent listens")]);
  });

  it.each([
    [400, "TASK"],
    [404, "TASK"],
    [500, "INFRASTRUCTURE"],
  ])("not after %i, which is %s", async (status, failureClass) => {
    respond = (response) => response.writeHead(status).end("because");
    const { failure } = await play();
    expect([failure.class, asked.length]).toEqual([failureClass, 1]);
    expect(failure.message).toContain("because");
  });

  it("not after an answer that is no JSON", async () => {
    respond = (response) => response.end("<html>");
    expect((await play()).failure.message).toMatch(/no JSON: <html>/);
  });
});
