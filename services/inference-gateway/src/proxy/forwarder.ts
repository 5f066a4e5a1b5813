// SPDX-License-Identifier: Apache-2.0
import type { IncomingMessage, ServerResponse } from "node:http";
import { WhetstoneError } from "@whetstone/core";
import type { Logger } from "@whetstone/telemetry";
import { EpochFence } from "../fleet/epoch-fence.ts";
import type { Refusal } from "../http/refusal.ts";
import { AMENDED, withOurs } from "./answers.ts";
import { isSteering, type Port, refusalOf } from "./rules.ts";
import { WeightGuard, type WeightSources } from "./weights/weight-guard.ts";
import type { EngineBehind } from "./wire/engine-behind.ts";
import { EPOCH, leaving, refuse, RefusedCall, textOf } from "./wire/http-parts.ts";
import { weightLoadOf } from "./wire/weight-load.ts";

/** Of a control call; sampling may be long. */
const MAX_CONTROL_BODY = 1 << 20;

/** Lets calls through to the engine, or says why not. */
export class Forwarder {
  readonly #engine: EngineBehind;
  readonly #logger: Logger;
  readonly #fence = new EpochFence();
  readonly #weights: WeightGuard;
  readonly #ours: Parameters<typeof withOurs>[2];

  constructor(engine: EngineBehind, { logger, sources, store }: ForwarderOptions) {
    this.#engine = engine;
    this.#weights = new WeightGuard(engine, sources);
    this.#ours = { store, counters: sources.fetcher?.counters };
    this.#logger = logger;
  }

  async pass(port: Port, request: IncomingMessage, response: ServerResponse): Promise<void> {
    const { method = "GET", url = "/" } = request;
    const path = url.split("?", 1)[0] ?? "/";
    try {
      const refusal = refusalOf(port, method, path) ?? this.#stale(request, method, path);
      if (refusal) return void refuse(response, refusal);
      if (AMENDED.has(path)) return await this.#tell(url, response);
      if (!isSteering(method, path)) return void (await this.#engine.answer({ request, response, body: request }));
      await this.#steer(path, request, response);
    } catch (error) {
      this.#failed(response, path, error);
    }
  }

  /** The engine's answer, with what it does not say. */
  async #tell(url: string, response: ServerResponse): Promise<void> {
    const { status, type, text } = await this.#engine.tell(url);
    const path = url.split("?", 1)[0] ?? "/";
    response.writeHead(status, { "content-type": type }).end(await withOurs(path, text, this.#ours));
  }

  async #steer(path: string, request: IncomingMessage, response: ServerResponse): Promise<void> {
    const body = await textOf(request, MAX_CONTROL_BODY);
    if (path === "/stage_weights") return await this.#stage(body, response);
    if (path === "/collective_rpc") return await this.#load(body, request, response);
    const refusal = this.#weights.refuses(path);
    return void (refusal ? refuse(response, refusal) : await this.#engine.answer({ request, response, body }));
  }

  async #stage(body: string, response: ServerResponse): Promise<void> {
    const [startedAt, before] = [performance.now(), this.#ours.counters?.bytes ?? 0];
    const refusal = await this.#weights.stage(body, leaving(response));
    const seconds = Math.round(performance.now() - startedAt) / 1000;
    const fetched = (this.#ours.counters?.bytes ?? 0) - before;
    if (refusal) {
      this.#logger.warn("weights_refused", { seconds, fetched, reason: refusal.message });
      return void refuse(response, refusal);
    }
    this.#logger.info("weights_staged", { seconds, fetched });
    response.writeHead(200, { "content-type": "application/json" }).end('{"success":true}');
  }

  async #load(body: string, request: IncomingMessage, response: ServerResponse): Promise<void> {
    const load = weightLoadOf(body);
    if (!load) return void refuse(response, ONLY_LOADS);
    const folder = await this.#weights.folderOf(load.path);
    if (typeof folder !== "string") return void refuse(response, folder);
    // Reading a folder takes a while, in which another controller may have come to lead.
    const refusal = this.#stale(request, "POST", "/collective_rpc");
    if (refusal) return void refuse(response, refusal);
    await this.#weights.loading(() => this.#engine.answer({ request, response, body: load.at(folder) }));
  }

  #stale(request: IncomingMessage, method: string, path: string): Refusal | undefined {
    if (!isSteering(method, path)) return undefined;
    const said = request.headers[EPOCH];
    if (said !== undefined && !/^\d{1,20}$/.test(String(said))) return NO_EPOCH;
    try {
      this.#fence.pass(BigInt(String(said ?? 0)));
      return undefined;
    } catch (error) {
      return { status: 409, type: "StaleEpoch", message: WhetstoneError.from(error).message };
    }
  }

  #failed(response: ServerResponse, path: string, error: unknown): void {
    if (response.destroyed) return;
    this.#logger.debug("engine_call_failed", { path, error });
    if (response.headersSent) response.destroy();
    else if (error instanceof RefusedCall) refuse(response, error.refusal);
    else refuse(response, { status: 503, type: "ServiceUnavailable", message: "the engine does not answer" });
  }
}

const ONLY_LOADS: Refusal = {
  status: 403,
  type: "Forbidden",
  message: "/collective_rpc passes reload_weights and nothing else",
};
const NO_EPOCH: Refusal = {
  status: 400,
  type: "Bad Request",
  message: "header Whetstone-Epoch: must be a whole number",
};

export interface ForwarderOptions {
  readonly logger: Logger;
  readonly sources: WeightSources;
  /** The object store that versions are read from; "": none. */
  readonly store: string;
}
