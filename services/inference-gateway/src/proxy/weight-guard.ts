// SPDX-License-Identifier: Apache-2.0
import { WhetstoneError } from "@whetstone/core";
import type { Pool } from "undici";
import type { Refusal } from "./rules.ts";
import { checkWeights, readShapes, type Shapes } from "./weight-folder.ts";

/**
 * What vLLM leaves to its caller when weights are loaded: that nothing samples meanwhile, that the folder is whole, and that
 * nobody resumes an engine whose load has failed, since it then has no model and its next request ends it.
 */
export class WeightGuard {
  readonly #engine: Pool;
  #served: Shapes | undefined;
  #failed = false;

  constructor(engine: Pool) {
    this.#engine = engine;
  }

  /** Undefined: the folder may be loaded now. Nothing of the engine is changed by a refusal. */
  async check(folder: string): Promise<Refusal | undefined> {
    if ((await this.#ask<{ is_paused?: boolean }>("/is_paused")).is_paused !== true) return NOT_PAUSED;
    try {
      this.#served ??= await readShapes(await this.#model());
      await checkWeights(folder, this.#served);
      return undefined;
    } catch (error) {
      return { status: 500, type: "InternalServerError", message: WhetstoneError.from(error).message };
    }
  }

  /** @param load  passes the call on, and says the engine's status. */
  async loading(load: () => Promise<number>): Promise<void> {
    this.#failed = true;
    this.#failed = (await load()) !== 200;
  }

  refuses(path: string): Refusal | undefined {
    return this.#failed && path === "/resume" ? FAILED : undefined;
  }

  /** The folder that the engine was started with. */
  async #model(): Promise<string> {
    const { data } = await this.#ask<{ data?: { root?: string }[] }>("/v1/models");
    return data?.[0]?.root ?? "";
  }

  async #ask<T>(path: string): Promise<T> {
    const { statusCode, body } = await this.#engine.request({ path, method: "GET" });
    const text = await body.text();
    if (statusCode !== 200) throw new WhetstoneError("UNAVAILABLE", `GET ${path} answered ${statusCode}: ${text}`);
    return JSON.parse(text) as T;
  }
}

const NOT_PAUSED: Refusal = {
  status: 400,
  type: "BadRequestError",
  message: "pause the engine before its weights are loaded",
};
const FAILED: Refusal = {
  status: 409,
  type: "WeightsNotLoaded",
  message: "the last load failed and left the engine without weights: load again, or start it anew",
};
