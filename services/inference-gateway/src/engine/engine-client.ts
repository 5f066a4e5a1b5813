// SPDX-License-Identifier: Apache-2.0
import { Pool } from "undici";
import type { Dispatcher } from "undici";
import type { CallScope } from "../completion/call-scope.ts";
import { type EngineLoad, parseEngineMetrics } from "../fleet/engine-metrics.ts";
import { ApiError } from "../completion/api-error.ts";
import type { AttemptEnd, AttemptRequest, EnginePort, OnTokens } from "../completion/generate.ts";
import type { EngineEntry, Intake, Lease } from "../fleet/engine-entry.ts";
import { AnswerReader, StreamReader } from "./answer-reader.ts";
import { generateBody, readIntake, readRendered } from "./engine-wire.ts";

/** Shorter than vLLM's 5 s, so that no request is written to a connection that the engine is closing. */
const KEEP_ALIVE_MS = 4_000;
/** Longer the answer takes by itself. */
const FINISH_MS = 10_000;
const JSON_HEADERS = { "content-type": "application/json" };

/** vLLM's: a conversation as the ids and features that it would sample from. */
const RENDER = "/v1/chat/completions/render";
const RENDER_MS = 60_000;
const SHOWN = 300;

function notRendered(code: "INVALID_ARGUMENT" | "UNAVAILABLE" | "ENGINE_FAILED", { id }: EngineEntry, why: string) {
  const reason = code === "INVALID_ARGUMENT" ? "engine_rejected" : "engines_failed";
  const message = `messages: engine ${id} cannot render the pictures: ${why.slice(0, SHOWN)}`;
  return new ApiError(code, reason, message, code === "INVALID_ARGUMENT" ? { param: "messages" } : { retryAfterS: 1 });
}

interface EnginePools {
  readonly url: string;
  /** As many connections as calls may run: nothing ever queues in here. */
  readonly data: Pool;
  /** Health and models: must answer while every data connection is busy. */
  readonly control: Pool;
}

/** HTTP to the engines, keep-alive. */
export class EngineClient implements EnginePort {
  readonly #pools = new Map<string, EnginePools>();
  readonly #connections: number;
  readonly #connect: Pool.Options["connect"];

  /** @param connect  of engines with an https:// URL; default: as any server. */
  constructor(maxInFlightPerEngine: number, connect?: Pool.Options["connect"]) {
    this.#connections = maxInFlightPerEngine;
    this.#connect = connect;
  }

  attempt(lease: Lease, request: AttemptRequest, scope: CallScope, onTokens?: OnTokens): Promise<AttemptEnd> {
    const { promise, resolve } = Promise.withResolvers<AttemptEnd>();
    const expected = lease.served.label;
    const reader =
      onTokens === undefined
        ? new AnswerReader(expected, request.alternatives, resolve)
        : new StreamReader(expected, request.alternatives, resolve, onTokens);
    scope.onCancel(() => {
      reader.stop({ kind: "failed", reason: "cancelled", message: "cancelled", quarantine: false });
    });
    lease.revoke = () => {
      reader.stop({ kind: "failed", reason: "revoked", message: "taken back", quarantine: false });
    };
    const model = lease.served.isAdapter === true ? expected : undefined;
    const body = generateBody(request, onTokens !== undefined, model);
    const headers = JSON_HEADERS;
    this.#of(lease.engine).data.dispatch({ path: "/inference/v1/generate", method: "POST", headers, body }, reader);
    return promise.finally(() => {
      scope.onCancel();
      lease.revoke = undefined;
    });
  }

  async render(lease: Lease, request: object): Promise<{ ids: readonly number[]; features: unknown }> {
    const { engine } = lease;
    const stop = new AbortController();
    lease.revoke = () => stop.abort(new Error("taken back"));
    const signal = AbortSignal.any([stop.signal, AbortSignal.timeout(RENDER_MS)]);
    const options = { path: RENDER, method: "POST" as const, headers: JSON_HEADERS, body: JSON.stringify(request) };
    try {
      const { statusCode, body } = await this.#of(engine).data.request({ ...options, signal });
      const text = await body.text();
      if (statusCode !== 200) throw notRendered(statusCode < 500 ? "INVALID_ARGUMENT" : "UNAVAILABLE", engine, text);
      const rendered = readRendered(text);
      if (rendered === undefined) throw notRendered("ENGINE_FAILED", engine, "it answered without ids and features");
      return rendered;
    } catch (error) {
      throw error instanceof ApiError ? error : notRendered("UNAVAILABLE", engine, String(error));
    } finally {
      lease.revoke = undefined;
    }
  }

  finish({ engine }: Lease, requestId: string): void {
    // vLLM knows a request of this route by its name with a prefix.
    const body = JSON.stringify({ request_ids: [`generate-tokens-${requestId}`] });
    const signal = AbortSignal.timeout(FINISH_MS);
    this.#of(engine)
      .control.request({ path: "/inference/v1/abort_requests", method: "POST", headers: JSON_HEADERS, body, signal })
      .then(
        (answer) => answer.body.dump(),
        () => undefined,
      ); // Then the answer goes on to its own end, unheard.
  }

  /** Answers 200 to GET /health within the time. */
  async healthy(engine: EngineEntry, timeoutMs: number): Promise<boolean> {
    try {
      return (await this.#get(engine, "/health", timeoutMs)).statusCode === 200;
    } catch {
      return false;
    }
  }

  /** What the engine says about what it takes. @throws Error when it cannot be asked. */
  async intake(engine: EngineEntry, timeoutMs: number): Promise<Intake> {
    const { statusCode, text } = await this.#get(engine, "/v1/models", timeoutMs);
    if (statusCode !== 200) throw new Error(`GET /v1/models answered ${statusCode}: ${text.slice(0, 200)}`);
    return readIntake(text);
  }

  /** What the engine says about its load; undefined: nothing that is understood, within the time. */
  async load(engine: EngineEntry, timeoutMs: number): Promise<EngineLoad | undefined> {
    try {
      const { statusCode, text } = await this.#get(engine, "/metrics", timeoutMs);
      return statusCode === 200 ? parseEngineMetrics(text) : undefined;
    } catch {
      return undefined;
    }
  }

  /** Closes the connections to an engine that nothing runs on any more. */
  async forget(engine: EngineEntry): Promise<void> {
    const pools = this.#pools.get(engine.id);
    if (pools?.url !== engine.url) return;
    this.#pools.delete(engine.id);
    await Promise.all([pools.data.destroy(), pools.control.destroy()]);
  }

  async close(): Promise<void> {
    const pools = [...this.#pools.values()].flatMap(({ data, control }) => [data, control]);
    this.#pools.clear();
    await Promise.all(pools.map((pool) => pool.destroy()));
  }

  async #get(engine: EngineEntry, path: string, timeoutMs: number): Promise<{ statusCode: number; text: string }> {
    const options: Dispatcher.RequestOptions = { path, method: "GET", signal: AbortSignal.timeout(timeoutMs) };
    const { statusCode, body } = await this.#of(engine).control.request(options);
    return { statusCode, text: await body.text() };
  }

  #of(engine: EngineEntry): EnginePools {
    const known = this.#pools.get(engine.id);
    if (known?.url === engine.url) return known;
    if (known !== undefined) void Promise.all([known.data.destroy(), known.control.destroy()]);
    // A generation may take minutes before its first byte; the call's own deadline bounds it.
    const connect = engine.url.startsWith("https:") && this.#connect ? { connect: this.#connect } : {};
    const common = { keepAliveTimeout: KEEP_ALIVE_MS, headersTimeout: 0, bodyTimeout: 0, ...connect };
    const pools = {
      url: engine.url,
      data: new Pool(engine.url, { ...common, connections: this.#connections, pipelining: 1 }),
      control: new Pool(engine.url, { ...common, connections: 2 }),
    };
    this.#pools.set(engine.id, pools);
    return pools;
  }
}
