// SPDX-License-Identifier: Apache-2.0
import { WhetstoneError } from "@whetstone/core";
import type { Pool } from "undici";
import { endToEnd, leaving } from "../wire/http-parts.ts";
import type { Call, EngineBehind, Told } from "../wire/engine-behind.ts";

/** vLLM, or another engine that speaks IEP/1 by itself: calls pass as they are. */
export class VllmEngine implements EngineBehind {
  readonly #pool: Pool;

  constructor(pool: Pool) {
    this.#pool = pool;
  }

  async isPaused(): Promise<boolean> {
    return (await this.#ask<{ is_paused?: boolean }>("/is_paused")).is_paused === true;
  }

  async modelFolder(): Promise<string> {
    const { data } = await this.#ask<{ data?: { root?: string }[] }>("/v1/models");
    return data?.[0]?.root ?? "";
  }

  async tell(url: string): Promise<Told> {
    const { statusCode, headers, body } = await this.#pool.request({ path: url, method: "GET" });
    const type = String(headers["content-type"] ?? "application/json");
    return { status: statusCode, type, text: await body.text() };
  }

  async answer({ request, response, body }: Call): Promise<number> {
    const signal = leaving(response);
    const { method = "GET", url: path = "/" } = request;
    const sent = method === "GET" ? null : body;
    const { "content-length": length, ...rest } = endToEnd(request.headers);
    // A whole body is counted anew: it may be another one.
    const headers = typeof body === "string" || length === undefined ? rest : { ...rest, "content-length": length };
    // After a 500 vLLM closes the connection of a control call without saying so: nobody may use it again.
    const reset = typeof body === "string";
    const options = {
      path,
      method: method as "GET",
      headers,
      body: sent,
      reset,
      signal,
      opaque: response,
    };
    let status = 0;
    await this.#pool.stream(options, ({ statusCode, headers: answered, opaque }) => {
      const target = opaque;
      status = statusCode;
      target.writeHead(statusCode, endToEnd(answered));
      return target;
    });
    return status;
  }

  async #ask<T>(path: string): Promise<T> {
    const { statusCode, body } = await this.#pool.request({ path, method: "GET" }).catch((cause: unknown) => {
      throw new WhetstoneError("UNAVAILABLE", `GET ${path}: the engine does not answer`, { cause });
    });
    const text = await body.text();
    if (statusCode !== 200) throw new WhetstoneError("UNAVAILABLE", `GET ${path} answered ${statusCode}: ${text}`);
    return JSON.parse(text) as T;
  }
}
