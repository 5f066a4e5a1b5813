// SPDX-License-Identifier: Apache-2.0
import type { Logger } from "@whetstone/telemetry";
import type { Pool } from "undici";
import { SglangApi } from "../sglang/sglang-api.ts";
import { SglangEngine } from "../sglang/sglang-engine.ts";
import type { Call, EngineBehind, Told } from "../wire/engine-behind.ts";
import { VllmEngine } from "./vllm-engine.ts";

/** Finds out which engine stands behind once it answers, as the proxy may begin long before it, and keeps to that. */
export class FoundEngine implements EngineBehind {
  readonly #find: () => Promise<EngineBehind>;
  #found: Promise<EngineBehind> | undefined;

  constructor(pool: Pool, kind: "auto" | "vllm" | "sglang", logger: Logger) {
    this.#find = async () => {
      const api = new SglangApi(pool);
      const isSglang = kind === "sglang" || (kind === "auto" && (await api.isThere()));
      logger.info("engine_found", { kind: isSglang ? "sglang" : "vllm" });
      return isSglang ? new SglangEngine(api, logger) : new VllmEngine(pool);
    };
  }

  async isPaused(): Promise<boolean> {
    return await (await this.#engine()).isPaused();
  }

  async modelFolder(): Promise<string> {
    return await (await this.#engine()).modelFolder();
  }

  async tell(url: string): Promise<Told> {
    return await (await this.#engine()).tell(url);
  }

  async answer(call: Call): Promise<number> {
    return await (await this.#engine()).answer(call);
  }

  #engine(): Promise<EngineBehind> {
    this.#found ??= this.#find().catch((error: unknown) => {
      this.#found = undefined;
      throw error;
    });
    return this.#found;
  }
}
