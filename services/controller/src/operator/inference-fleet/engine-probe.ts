// SPDX-License-Identifier: Apache-2.0
import { Agent, request } from "undici";
import type { ProbeFact } from "./state.ts";

/** An engine that computes answers late; one that says nothing for so long is asked again the next time. */
const PROBE_MS = 4_000;

/** Asks engines at their control ports what they are at. Connections of its own, so that a switch never waits for it. */
export class EngineProbe implements AsyncDisposable {
  readonly #agent: Agent;

  /** @param connect  of engines with https:// URLs */
  constructor(connect?: Agent.Options["connect"]) {
    this.#agent = new Agent({
      connections: 1,
      keepAliveTimeout: 4_000,
      connectTimeout: PROBE_MS,
      ...(connect && { connect }),
    });
  }

  /** @returns undefined when it does not answer in time, or not as an engine does. */
  async ask(url: string, signal: AbortSignal): Promise<ProbeFact | undefined> {
    try {
      const [{ is_paused }, { weight_version }] = await Promise.all([
        this.#get<{ is_paused?: boolean }>(`${url}/is_paused`, signal),
        this.#get<{ weight_version?: string }>(`${url}/weight_info`, signal),
      ]);
      if (typeof is_paused !== "boolean" || typeof weight_version !== "string") return undefined;
      return { paused: is_paused, label: weight_version };
    } catch {
      return undefined;
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#agent.destroy();
  }

  async #get<T>(url: string, signal: AbortSignal): Promise<T> {
    const limit = AbortSignal.any([signal, AbortSignal.timeout(PROBE_MS)]);
    const { statusCode, body } = await request(url, { dispatcher: this.#agent, signal: limit });
    const text = await body.text();
    if (statusCode !== 200) throw new Error(`${url} answered ${statusCode}`);
    return JSON.parse(text) as T;
  }
}
