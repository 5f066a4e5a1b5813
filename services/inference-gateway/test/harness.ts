// SPDX-License-Identifier: Apache-2.0
import { execFileSync } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { fromBinary } from "@bufbuild/protobuf";
import { CallTreeSchema, FleetService } from "@whetstone/proto/inference/v1/inference";
import type { CallTree } from "@whetstone/proto/inference/v1/inference";
import { createClient } from "@whetstone/rpc";
import type { RpcClient } from "@whetstone/rpc";
import { silentLogger } from "@whetstone/telemetry";
import { startApp } from "../src/app.ts";
import { ConfigSchema } from "../src/config.ts";
import type { GatewayConfig } from "../src/config.ts";

export const ROOT = fileURLToPath(new URL("../../..", import.meta.url));

/** A folder made by `python -m whetstone_models init`, removed on dispose. */
export interface TempFolder extends Disposable {
  readonly path: string;
}

export function tempFolder(): TempFolder {
  const path = mkdtempSync(join(tmpdir(), "whetstone-gateway-"));
  return {
    path,
    [Symbol.dispose]: () => {
      rmSync(path, { recursive: true, force: true });
    },
  };
}

/** Runs the repository's Python with the trainer's packages on its path; its standard output. */
export function python(args: string[], input = ""): string {
  const env = {
    ...process.env,
    PYTHONPATH: join(ROOT, "python-trainer/src"),
    OMP_NUM_THREADS: "1",
    OMP_WAIT_POLICY: "PASSIVE",
  };
  return execFileSync(join(ROOT, ".venv/bin/python"), args, { env, input, encoding: "utf8", maxBuffer: 1 << 28 });
}

/**
 * Tokenizer and template of the tiny byte-level model: token i is byte i, "<|end|>" is 260. Copied from a folder that
 * `python -m whetstone_models init` made, because importing torch takes seconds; a test compares the two.
 */
export const TINY = fileURLToPath(new URL("tiny", import.meta.url));

/** Makes the whole tiny model, weights included. */
export function initModel(folder: TempFolder): string {
  const path = join(folder.path, "model");
  python(["-m", "whetstone_models", "init", path]);
  return path;
}

export type Gateway = Awaited<ReturnType<typeof startGateway>>;

/** A gateway on free ports, with clients. */
export async function startGateway(overrides: Partial<GatewayConfig> = {}) {
  const config = { ...ConfigSchema.parse({ httpPort: 0, grpcPort: 0, healthIntervalMs: 50 }), ...overrides };
  const app = await startApp(config, { logger: silentLogger });
  const fleet: RpcClient<typeof FleetService> = createClient(FleetService, app.grpcAddress);
  const close = async (): Promise<void> => {
    await fleet[Symbol.asyncDispose]();
    await app.close();
  };
  /** A key of a session. */
  const openKey = async (session: string): Promise<{ session: string; key: string }> => {
    const response = await fetch(`${app.httpUrl}/s/${session}/key`, { method: "POST" });
    return { session, key: ((await response.json()) as { key: string }).key };
  };
  return { ...app, fleet, openKey, close, [Symbol.asyncDispose]: close };
}

/** Registers and unfences an engine. */
export async function serve(
  gateway: Gateway,
  id: string,
  ...[url, modelPath, version = 1n, policy = "job"]: [url: string, modelPath: string, version?: bigint, policy?: string]
) {
  await gateway.fleet.registerEngine({ id, url });
  const label = `${policy}:${version}`;
  await gateway.fleet.unfenceEngine({ id, policy: { policy, policyVersion: version, label, modelPath } });
}

export interface ChatBody {
  choices: {
    message: { role: string; content: string };
    finish_reason: string;
    token_ids?: number[];
    logprobs: { content: { token: string; logprob: number; top_logprobs: { token: string }[] }[] } | null;
  }[];
  usage: { prompt_tokens: number; completion_tokens: number; total_tokens: number };
  call_id: string;
  prompt_token_ids?: number[];
  error?: { message: string; type: string; param: string | null; code: string };
}

export interface ChatResult {
  readonly status: number;
  readonly body: ChatBody;
  readonly headers: Headers;
}

export interface PostOptions {
  readonly headers?: Record<string, string>;
  readonly signal?: AbortSignal;
}

export async function post(
  gateway: Gateway,
  path: string,
  body: unknown,
  options: PostOptions = {},
): Promise<ChatResult> {
  const response = await fetch(gateway.httpUrl + path, {
    ...{ method: "POST", body: typeof body === "string" ? body : JSON.stringify(body) },
    headers: { "content-type": "application/json", ...options.headers },
    ...(options.signal === undefined ? {} : { signal: options.signal }),
  });
  return { status: response.status, body: (await response.json()) as ChatBody, headers: response.headers };
}

export interface Message {
  role: string;
  content: string;
}

/** One chat completion of the policy "job" in a session. */
export function chat(
  gateway: Gateway,
  session: string,
  messages: Message[],
  ...[more = {}, options = {}]: [more?: object, options?: PostOptions]
) {
  return post(gateway, `/s/${session}/v1/chat/completions`, { model: "job", messages, ...more }, options);
}

/** The events of a streamed answer, parsed, `[DONE]` checked and left out. */
export async function chatStream(gateway: Gateway, session: string, messages: Message[], more: object = {}) {
  const response = await fetch(`${gateway.httpUrl}/s/${session}/v1/chat/completions`, {
    method: "POST",
    body: JSON.stringify({ model: "job", messages, stream: true, ...more }),
  });
  const events = (await response.text()).split("\n\n").filter((text) => text !== "");
  if (events.pop() !== "data: [DONE]") throw new Error("the stream does not end with [DONE]");
  return events.map((text) => JSON.parse(text.slice("data: ".length)) as StreamChunk);
}

export interface StreamChunk {
  choices: { delta: { role?: string; content?: string }; finish_reason: string | null; token_ids?: number[] }[];
  usage?: { completion_tokens: number };
  error?: { code: string };
}

/** The session's calls. */
export async function calls(gateway: Gateway, session: string, query = ""): Promise<CallTree> {
  const headers = { accept: "application/x-protobuf" };
  const response = await fetch(`${gateway.httpUrl}/s/${session}/calls${query}`, { headers });
  return fromBinary(CallTreeSchema, new Uint8Array(await response.arrayBuffer()));
}

export function user(content: string): Message {
  return { role: "user", content };
}

export function assistant(content: string): Message {
  return { role: "assistant", content };
}

/** Waits until something holds. */
export async function eventually(holds: () => boolean | Promise<boolean>, withinMs = 30_000): Promise<void> {
  for (const end = Date.now() + withinMs; !(await holds());) {
    if (Date.now() > end) throw new Error(`not within ${withinMs} ms: ${String(holds)}`);
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
}
