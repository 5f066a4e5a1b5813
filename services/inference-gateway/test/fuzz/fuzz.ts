// SPDX-License-Identifier: Apache-2.0
import { randomBytes } from "node:crypto";
import { once } from "node:events";
import { connect } from "node:net";
import { createRng, deriveSeed, type Rng } from "@whetstone/core";
import { Agent } from "undici";
import { faultOf } from "./answer-forms.ts";
import { mutated, type Asked } from "./mutate.ts";
import type { Endpoint } from "./sound-requests.ts";

export interface Target {
  /** The port of our services. */
  readonly httpUrl: string;
  /** That of agents, where each request brings the key of an episode. */
  readonly agentsUrl: string;
}

export interface Tally {
  requests: number;
  readonly byStatus: Record<string, number>;
  readonly faults: string[];
  slowestMs: number;
}

interface FuzzOptions {
  readonly seed: number;
  /** Half of them at each port. */
  readonly count: number;
  readonly concurrency: number;
}

/** Requests of one session; then it is closed. */
const SESSION_REQUESTS = 50;
/** An answer that takes longer does not come. */
const HANG_MS = 30_000;
const MAX_FAULTS = 20;

/** Sends mutated requests; what of the answers is not as it must be stands in `faults`, with what was sent. */
export async function fuzzEndpoint(target: Target, endpoint: Endpoint, options: FuzzOptions): Promise<Tally> {
  const tally: Tally = { requests: 0, byStatus: {}, faults: [], slowestMs: 0 };
  const { seed, count, concurrency } = options;
  const agent = new Agent({ connections: concurrency, headersTimeout: HANG_MS, bodyTimeout: HANG_MS });
  const sessions = Math.ceil(count / SESSION_REQUESTS);
  let next = 0;
  const player = async (): Promise<void> => {
    for (let index = next++; index < sessions; index = next++) {
      const rng = createRng(deriveSeed(seed, endpoint.path, index));
      await fuzzSession({ target, endpoint, agent, tally, rng }, `fuzz-${index}`, index % 2 === 0);
    }
  };
  await Promise.all(Array.from({ length: concurrency }, player));
  await agent.close();
  return tally;
}

interface Fuzz {
  readonly target: Target;
  readonly endpoint: Endpoint;
  readonly agent: Agent;
  readonly tally: Tally;
  readonly rng: Rng;
}

async function fuzzSession(fuzz: Fuzz, session: string, byKey: boolean): Promise<void> {
  const { target, agent, endpoint, rng, tally } = fuzz;
  const own = { origin: target.httpUrl, path: `/s/${session}` };
  const issued = await agent.request({ ...own, path: `${own.path}/key`, method: "POST" });
  const { key } = (await issued.body.json()) as { key: string };
  for (let left = SESSION_REQUESTS; left > 0; left--) {
    const asked = mutated(rng, endpoint);
    await ask(
      fuzz,
      byKey ? withKey(asked, key, target.agentsUrl) : { ...asked, path: own.path + asked.path, origin: own.origin },
    );
    if (tally.faults.length > MAX_FAULTS) return;
  }
  await (await agent.request({ ...own, method: "DELETE" })).body.dump();
}

function withKey(asked: Asked, key: string, origin: string): Asked & { origin: string } {
  return { ...asked, origin, headers: { authorization: `Bearer ${key}`, ...asked.headers } };
}

async function ask({ agent, endpoint, tally }: Fuzz, asked: Asked & { origin: string }): Promise<void> {
  const sentAt = performance.now();
  const { origin, path, method, headers, body } = asked;
  const options = { origin, path, method: method as "POST", headers, body: body ?? null };
  let fault: string | undefined;
  try {
    const answer = await agent.request(options);
    const text = await answer.body.text();
    const contentType = String(answer.headers["content-type"] ?? "");
    const spoken = spokenAt(endpoint, asked);
    tally.byStatus[answer.statusCode] = (tally.byStatus[answer.statusCode] ?? 0) + 1;
    fault = faultOf(spoken, { status: answer.statusCode, contentType, text });
  } catch (error) {
    fault = `no answer: ${String(error)}`;
  }
  tally.requests++;
  tally.slowestMs = Math.max(tally.slowestMs, performance.now() - sentAt);
  if (fault !== undefined)
    tally.faults.push(
      `${method} ${path.slice(0, 200)} ${JSON.stringify(headers).slice(0, 300)} ${String(body).slice(0, 1500)}: ${fault}`,
    );
}

/** Below another path there is no dialect: errors are OpenAI's. */
function spokenAt({ path, form }: Endpoint, asked: Asked): Pick<Endpoint, "path" | "form"> {
  return { path, form: asked.path.split("?")[0]?.endsWith(path) === true ? form : "openai" };
}

/** What comes of bytes that are no HTTP, sent by so many connections; faults as above. */
export async function fuzzBytes(url: string, bytes: number): Promise<Tally> {
  const tally: Tally = { requests: 0, byStatus: {}, faults: [], slowestMs: 0 };
  const { hostname, port } = new URL(url);
  for (let left = bytes; left > 0; left -= BYTES_AT_ONCE) {
    const sentAt = performance.now();
    const socket = connect(Number(port), hostname);
    let text = "";
    socket
      .setEncoding("latin1")
      .on("data", (chunk: string) => (text += chunk))
      .on("error", () => undefined);
    const closed = once(socket, "close", { signal: AbortSignal.timeout(HANG_MS) });
    // Some of it behind a line that a server takes for the beginning of a request.
    const start = tally.requests % 4 === 0 ? "POST /v1/chat/completions HTTP/1.1\r\n" : "";
    socket.write(Buffer.concat([Buffer.from(start), randomBytes(Math.min(left, BYTES_AT_ONCE))]));
    const fault = await closed.then(
      () => bytesFault(text),
      (error: unknown) => `it stays open: ${String(error)}`,
    );
    socket.destroy();
    tally.requests++;
    tally.slowestMs = Math.max(tally.slowestMs, performance.now() - sentAt);
    const status = /^HTTP\/1\.1 (\d+)/.exec(text)?.[1] ?? "none";
    tally.byStatus[status] = (tally.byStatus[status] ?? 0) + 1;
    if (fault !== undefined) tally.faults.push(fault);
  }
  return tally;
}

const BYTES_AT_ONCE = 1_000;

function bytesFault(text: string): string | undefined {
  const [head = "", body = ""] = text.split("\r\n\r\n");
  const status = Number(/^HTTP\/1\.1 (\d+)/.exec(head)?.[1]);
  return faultOf({ path: "", form: "openai" }, { status, contentType: "application/json", text: body });
}
