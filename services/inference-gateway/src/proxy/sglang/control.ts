// SPDX-License-Identifier: Apache-2.0
import { Gate } from "@whetstone/core";
import { RefusedCall } from "../wire/http-parts.ts";
import type { Flights } from "./flights.ts";
import { errorText } from "./native.ts";
import type { SglangApi } from "./sglang-api.ts";

/**
 * SGLang's label of weights that were loaded and not named yet. Whoever would answer by them, also after this proxy was
 * killed, is found out by it (I5).
 */
export const UNLABELLED = "whetstone-unlabelled";

/** How long its scheduler may take to see that nothing runs any more. */
const FLUSH_TRIES = 20;
const FLUSH_EVERY_MS = 100;
/** After a pause, for the last words of what it ended. */
const LATE_MS = 1000;

// C1: while it is paused nothing samples, and what comes is held here. C2: a load takes the label from SGLang; the one who
// sets the next one, or resumes under the old one, gives it back. C3: a pause that fails leaves it running.
/** Pauses SGLang, and names its weights. */
export class SglangControl {
  readonly #api: SglangApi;
  readonly #flights: Flights;
  /** Pauses, resumes and loads come one after the other. */
  readonly #turns = new Gate(1);
  #label: string;
  /** It has weights that are not the label's. */
  #isUnlabelled = false;
  #isPaused = false;

  constructor(api: SglangApi, flights: Flights, label: string) {
    this.#api = api;
    this.#flights = flights;
    this.#label = label;
  }

  get isPaused(): boolean {
    return this.#isPaused;
  }

  /** What an answer that begins now has to carry. */
  get label(): string {
    return this.#label;
  }

  /** Asks SGLang, which may have been started anew. */
  async currentLabel(): Promise<string> {
    const { weight_version: label } = await this.#api.modelInfo();
    if (!this.#isUnlabelled && typeof label === "string") this.#label = label;
    return this.#label;
  }

  /** @param mode  "abort", or "wait" for what runs */
  async pause(mode: string, clearCache: boolean): Promise<void> {
    if (mode === "keep") throw NO_KEEP;
    if (mode !== "abort" && mode !== "wait")
      throw new RefusedCall(400, "BadRequestError", `mode=${mode}: no such mode`);
    using _turn = await this.#turns.acquire();
    if (!this.#isPaused) await this.#stop(mode);
    if (clearCache) await this.clearCache();
  }

  async resume(): Promise<void> {
    using _turn = await this.#turns.acquire();
    if (this.#isUnlabelled) await this.#name(this.#label);
    await this.#api.mustPost("/continue_generation", {});
    this.#isPaused = false;
    this.#flights.open();
  }

  /** The caller has seen to it that it is paused. @throws RefusedCall where SGLang does not load it; it has what it had then */
  async load(folder: string): Promise<void> {
    using _turn = await this.#turns.acquire();
    await this.#api.mustPost("/update_weights_from_disk", {
      ...{ model_path: folder, weight_version: UNLABELLED, abort_all_requests: false, flush_cache: true },
    });
    this.#isUnlabelled = true;
  }

  async setLabel(label: string): Promise<void> {
    using _turn = await this.#turns.acquire();
    await this.#name(label);
    this.#label = label;
  }

  /** @throws RefusedCall while something runs */
  async clearCache(): Promise<void> {
    for (let tries = 1; ; tries += 1) {
      const { status, text } = await this.#api.post("/flush_cache", {});
      if (status === 200) return;
      if (tries === FLUSH_TRIES) throw new RefusedCall(500, "InternalServerError", errorText(text));
      await new Promise((done) => setTimeout(done, FLUSH_EVERY_MS));
    }
  }

  async #stop(mode: "abort" | "wait"): Promise<void> {
    this.#flights.shut();
    try {
      if (mode === "wait") await this.#flights.drained();
      await this.#api.mustPost("/pause_generation", { mode: "abort" });
      // SGLang has ended all; what it said last is on its way to the callers. One that came to it during the pause waits there.
      const late = setTimeout(() => this.#flights.cutAll(), LATE_MS);
      await this.#flights.drained().finally(() => clearTimeout(late));
      this.#isPaused = true;
    } catch (error) {
      await this.#api.post("/continue_generation", {}).catch(() => undefined);
      this.#flights.open();
      throw error;
    }
  }

  async #name(label: string): Promise<void> {
    await this.#api.mustPost("/update_weight_version", { new_version: label, abort_all_requests: false });
    this.#isUnlabelled = false;
  }
}

/** It stops at some later step, does not say when, and before 0.5.20 not which tokens came before. */
const NO_KEEP = new RefusedCall(
  501,
  "NotImplementedError",
  "mode=keep: SGLang does not say when it stands still, so an answer could carry tokens of two labels under one; use mode=abort",
);
