// SPDX-License-Identifier: Apache-2.0
import { Pool } from "undici";
import type { Percentiles, Target } from "./work.ts";

const JSON_HEADERS = { "content-type": "application/json" };

interface Answered {
  readonly ms: number;
  readonly content: string;
}

/** Chat completions over connections that stay open. */
export class Client implements AsyncDisposable {
  readonly #pools: readonly Pool[];
  readonly #target: Target;
  #sessions = 0;

  constructor(target: Target, connections: number) {
    this.#target = target;
    const each = Math.ceil(connections / target.urls.length);
    this.#pools = target.urls.map((url) => new Pool(url, { connections: each }));
  }

  /** Sessions are opened at the replicas in turns. */
  session(label: string): { chat: (messages: readonly object[]) => Promise<Answered>; close: () => Promise<void> } {
    const { prefix, headers, close } = this.#target;
    const pool = this.#pools[this.#sessions++ % this.#pools.length] as Pool;
    const name = `${label}-${process.pid}-${this.#sessions}`;
    const path = `${prefix.replace("{session}", name)}/v1/chat/completions`;
    return {
      chat: async (messages) => {
        const sentAt = performance.now();
        const body = JSON.stringify({ model: MODEL, messages, max_tokens: MAX_TOKENS });
        const text = await send(pool, { method: "POST", path, headers: { ...JSON_HEADERS, ...headers }, body });
        const ms = performance.now() - sentAt;
        const { choices } = JSON.parse(text) as { choices: { message: { content: string } }[] };
        return { ms, content: choices[0]?.message.content ?? "" };
      },
      close: async () => {
        if (close === undefined) return;
        const { method, path: at } = close;
        await send(pool, { method, path: at.replace("{session}", name), headers: PROTOBUF });
      },
    };
  }

  /** What our gateway makes of a prompt. */
  async idsOf(messages: readonly object[]): Promise<number[]> {
    const body = JSON.stringify({ model: MODEL, messages, max_tokens: MAX_TOKENS, return_token_ids: true });
    const path = "/v1/chat/completions";
    const text = await send(this.#pools[0] as Pool, { method: "POST", path, headers: JSON_HEADERS, body });
    return (JSON.parse(text) as { prompt_token_ids: number[] }).prompt_token_ids;
  }

  /** Milliseconds of a call at an engine. */
  async generate(ids: readonly number[]): Promise<number> {
    const sentAt = performance.now();
    const body = JSON.stringify({ token_ids: ids, sampling_params: { max_tokens: MAX_TOKENS, logprobs: 0 } });
    const path = "/inference/v1/generate";
    JSON.parse(await send(this.#pools[0] as Pool, { method: "POST", path, headers: JSON_HEADERS, body }));
    return performance.now() - sentAt;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await Promise.all(this.#pools.map((pool) => pool.close()));
  }
}

/** The policy of the gateways; others take any name. */
export const MODEL = "bench";
const MAX_TOKENS = 64;
const PROTOBUF = { accept: "application/x-protobuf" };

interface Asked {
  readonly method: "GET" | "POST" | "DELETE";
  readonly path: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body?: string;
}

async function send(pool: Pool, asked: Asked): Promise<string> {
  const { statusCode, body } = await pool.request(asked);
  const text = await body.text();
  if (statusCode >= 300) throw new Error(`${asked.path}: HTTP ${statusCode}: ${text.slice(0, 300)}`);
  return text;
}

export function percentiles(took: readonly number[]): Percentiles {
  const inOrder = took.toSorted((a, b) => a - b);
  const at = (share: number): number => round(inOrder[Math.floor(inOrder.length * share)] ?? 0);
  return { p50Ms: at(0.5), p99Ms: at(0.99) };
}

export function round(value: number): number {
  return Math.round(value * 1000) / 1000;
}
