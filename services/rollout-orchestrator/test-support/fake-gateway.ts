// SPDX-License-Identifier: Apache-2.0
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { create, toBinary } from "@bufbuild/protobuf";
import { CallTreeSchema } from "@whetstone/proto/inference/v1/inference";
import { type ModelCall, ModelCallSchema } from "@whetstone/proto/types/v1/types";

/** What the fake was asked. */
export interface SeenCall {
  readonly session: string;
  readonly headers: IncomingMessage["headers"];
  readonly body: {
    readonly model: string;
    readonly messages: { role: string; content: string }[];
    seed: number;
    max_tokens: number;
  };
}

export interface FakeAnswer {
  readonly text: string;
  /** Milliseconds before it answers; Infinity: never. */
  readonly delayMs?: number;
  readonly status?: number;
}

export interface FakeGateway extends AsyncDisposable {
  readonly url: string;
  readonly seen: SeenCall[];
  /** What was asked for. */
  readonly paths: readonly string[];
  /** Bodies of conversations that were given to be rendered. */
  readonly rendered: object[];
  readonly sessions: ReadonlyMap<string, ModelCall[]>;
  /** Connections that clients closed before their answer. */
  readonly aborted: number;
  /** What `GET /load` says; undefined: 404. */
  load: object | undefined;
  /** Sessions are forgotten, as after a restart. */
  forget(): void;
  /** Takes over what another one holds, as when that one leaves. */
  takeOver(other: FakeGateway): void;
}

/** Speaks the gateway's interface for agents; answers by script, counts one token a character. */
export async function startFakeGateway(script: (call: SeenCall) => FakeAnswer): Promise<FakeGateway> {
  const sessions = new Map<string, ModelCall[]>();
  const seen: SeenCall[] = [];
  const paths: string[] = [];
  const rendered: object[] = [];
  const keys = new Map<string, string>();
  const state = { aborted: 0 };
  const server = createServer((request, response) => {
    void read(request).then((body) => answer(request, response, body));
  });
  async function answer(request: IncomingMessage, response: ServerResponse, text: string): Promise<void> {
    paths.push(request.url ?? "");
    const { session, route } = placeOf(request, keys);
    if (answerOfKey(keys, { session, route }, request, response)) return;
    if (answerOfPlace(sessions.has(session) || keys.has(session), { session, route }, request, response)) return;
    if (request.url === "/load" && gateway.load !== undefined) {
      response.writeHead(200, { "content-type": "application/json" }).end(JSON.stringify(gateway.load));
    } else if (route === "v1/chat/completions") {
      const call = { session, headers: request.headers, body: JSON.parse(text) as SeenCall["body"] };
      seen.push(call);
      await chat(call, response);
    } else if (route === "calls") {
      sendTree(response, session, sessions.get(session) ?? []);
      sessions.delete(session);
      keys.delete(session);
    } else if (route === "render") {
      rendered.push(JSON.parse(text) as object);
      sendTree(response, session, [modelCall({ id: "c0", prompt: 7, text: "demo", mask: [1, 1, 0] })]);
    } else response.writeHead(404).end();
  }
  async function chat(call: SeenCall, response: ServerResponse): Promise<void> {
    const { text, delayMs = 0, status = 200 } = script(call);
    response.once("close", () => {
      if (!response.writableFinished) state.aborted += 1;
    });
    if (delayMs === Number.POSITIVE_INFINITY) return;
    if (delayMs > 0) await new Promise((resolve) => setTimeout(resolve, delayMs));
    if (status !== 200) {
      response.writeHead(status).end(JSON.stringify({ error: { message: text, code: "scripted" } }));
      return;
    }
    const calls = sessions.get(call.session) ?? [];
    const id = `c${calls.length}`;
    const prompt = call.body.messages.map(({ content }) => content).join("").length;
    const role = String(call.headers["x-whetstone-role"] ?? "agent");
    calls.push(modelCall({ id, role, prompt, text }));
    sessions.set(call.session, calls);
    response.writeHead(200, { "content-type": "application/json" }).end(
      JSON.stringify({
        id: "chatcmpl-1",
        choices: [{ message: { role: "assistant", content: text }, finish_reason: "stop" }],
        usage: { prompt_tokens: prompt, completion_tokens: text.length },
        call_id: id,
      }),
    );
  }
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const gateway: FakeGateway = {
    load: undefined,
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    seen,
    paths,
    rendered,
    sessions,
    get aborted() {
      return state.aborted;
    },
    forget: () => {
      sessions.clear();
      keys.clear();
    },
    takeOver: (other) => {
      for (const [name, calls] of other.sessions) sessions.set(name, calls);
      other.forget();
    },
    async [Symbol.asyncDispose]() {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
  return gateway;
}

/** By the path, `/s/<session>/<route>`; where that names no session, by the key. */
function placeOf(
  { url = "", headers }: IncomingMessage,
  keys: Map<string, string>,
): { session: string; route: string } {
  const [path = ""] = url.split("?");
  const [, prefix, name = "", ...rest] = path.split("/");
  if (prefix === "s") return { session: decodeURIComponent(name), route: rest.join("/") };
  const [session = ""] = [...keys].find(([, key]) => headers.authorization === `Bearer ${key}`) ?? [];
  return { session, route: path.slice(1) };
}

/** Issues a session's key, and refuses another one than it issued; false: neither. */
function answerOfKey(
  keys: Map<string, string>,
  { session, route }: { session: string; route: string },
  { headers }: IncomingMessage,
  response: ServerResponse,
): boolean {
  const key = keys.get(session);
  const isWrong = headers.authorization !== undefined && headers.authorization !== `Bearer ${key}`;
  if (route === "key") {
    keys.set(session, `key-of-${session}`);
    response.writeHead(201, { "content-type": "application/json" }).end(JSON.stringify({ key: keys.get(session) }));
  } else if ((session === "" || (key !== undefined && isWrong)) && route.startsWith("v1/")) {
    response.writeHead(401).end(JSON.stringify({ error: { message: "not its key", code: "invalid_api_key" } }));
  } else return false;
  return true;
}

/** Says whether a session is here, and refuses what must not begin it anew; false: neither was asked. */
function answerOfPlace(
  isHere: boolean,
  { session, route }: { session: string; route: string },
  { headers }: IncomingMessage,
  response: ServerResponse,
): boolean {
  if (!isHere && headers["x-whetstone-begun"] !== undefined) {
    response.writeHead(404).end(JSON.stringify({ error: { message: "lost", code: "session_not_here" } }));
    return true;
  }
  if (route !== "" || session === "") return false;
  response.writeHead(isHere ? 200 : 404).end();
  return true;
}

function modelCall({
  id,
  prompt,
  text,
  role = "agent",
  mask = [],
}: {
  id: string;
  role?: string;
  prompt: number;
  text: string;
  mask?: number[];
}): ModelCall {
  const completion = mask.length > 0 ? mask.map(() => 2) : Array.from(text, (c) => c.charCodeAt(0));
  return create(ModelCallSchema, {
    id,
    promptIds: Array.from({ length: prompt }, () => 1),
    completionIds: completion,
    logprobs: completion.map(() => -0.5),
    versionSpans: mask.length > 0 ? [] : [{ start: 0, end: completion.length, policyVersion: 3n }],
    finishReason: "stop",
    role,
    text,
    demonstrationMask: mask,
  });
}

function sendTree(response: ServerResponse, session: string, calls: ModelCall[]): void {
  const body = toBinary(CallTreeSchema, create(CallTreeSchema, { session, calls }));
  response.writeHead(200, { "content-type": "application/x-protobuf" }).end(body);
}

async function read(request: IncomingMessage): Promise<string> {
  let text = "";
  for await (const chunk of request) text += String(chunk);
  return text;
}
