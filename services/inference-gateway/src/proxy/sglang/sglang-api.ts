// SPDX-License-Identifier: Apache-2.0
import { WhetstoneError } from "@whetstone/core";
import type { Dispatcher, Pool } from "undici";
import type { z } from "zod";
import { parsedJson, RefusedCall } from "../wire/http-parts.ts";
import { errorText, type ModelInfo, ModelInfoSchema, type ServerInfo, ServerInfoSchema } from "./native.ts";

export interface Reply {
  readonly status: number;
  readonly text: string;
}

/** SGLang's native routes. Connections are not kept after control calls, which may have failed in any way. */
export class SglangApi {
  readonly #pool: Pool;

  constructor(pool: Pool) {
    this.#pool = pool;
  }

  /** Whether it is SGLang that answers. @throws UNAVAILABLE when nobody does */
  async isThere(): Promise<boolean> {
    const { status, text } = await this.#info("model_info");
    return status === 200 && ModelInfoSchema.safeParse(parsedJson(text)).success;
  }

  async modelInfo(): Promise<ModelInfo> {
    return parsed(await this.#info("model_info"), ModelInfoSchema);
  }

  async serverInfo(): Promise<ServerInfo> {
    return parsed(await this.#info("server_info"), ServerInfoSchema);
  }

  async get(path: string): Promise<Reply> {
    return await this.#ask({ method: "GET", path });
  }

  async getParsed<T>(path: string, schema: z.ZodType<T>): Promise<T> {
    return parsed(await this.get(path), schema);
  }

  async post(path: string, body: object, signal?: AbortSignal): Promise<Reply> {
    const headers = { "content-type": "application/json" };
    return await this.#ask({
      method: "POST",
      path,
      body: JSON.stringify(body),
      headers,
      reset: true,
      signal: signal ?? null,
    });
  }

  /** @throws RefusedCall with SGLang's words unless it answers 200 */
  async mustPost(path: string, body: object): Promise<void> {
    const { status, text } = await this.post(path, body);
    if (status !== 200)
      throw new RefusedCall(500, "InternalServerError", `SGLang's ${path} answered ${status}: ${errorText(text)}`);
  }

  /** Whether it has a route that is for POST only: asked by GET it does nothing, and says that it is another method. */
  async hasRoute(path: string): Promise<boolean> {
    return (await this.get(path)).status === 405;
  }

  /** The answer of /generate as it comes. */
  async generate(body: object, signal: AbortSignal): Promise<Dispatcher.ResponseData> {
    const headers = { "content-type": "application/json" };
    return await this.#pool.request({
      ...{ method: "POST" as const, path: "/generate", headers, signal },
      body: JSON.stringify(body),
    });
  }

  /** Older releases have the routes with "get_" only. */
  async #info(name: string): Promise<Reply> {
    const reply = await this.get(`/${name}`);
    return reply.status === 404 ? await this.get(`/get_${name}`) : reply;
  }

  async #ask(options: Dispatcher.RequestOptions): Promise<Reply> {
    const { statusCode, body } = await this.#pool.request(options).catch((cause: unknown) => {
      throw new WhetstoneError("UNAVAILABLE", `${options.method} ${options.path}: the engine does not answer`, {
        cause,
      });
    });
    return { status: statusCode, text: await body.text() };
  }
}

function parsed<T>({ status, text }: Reply, schema: z.ZodType<T>): T {
  const { data, error } = schema.safeParse(parsedJson(text));
  if (status === 200 && data !== undefined) return data;
  throw new WhetstoneError("UNAVAILABLE", `SGLang answered ${status}: ${error?.message ?? errorText(text)}`);
}
