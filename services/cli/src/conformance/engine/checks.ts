// SPDX-License-Identifier: Apache-2.0
/** The conformance list of the engine protocol, as far as one engine can show it. */
import type { RunCheck } from "../run-checks.ts";
import { ADAPTERS } from "./adapters.ts";
import { difference } from "./answer.ts";
import { CACHES } from "./caches.ts";
import { CONTROL_PLANE } from "./control-plane.ts";
import { DATA_PLANE } from "./data-plane.ts";
import type { EngineApi } from "./engine-api.ts";
import type { EngineCheck } from "./engine-check.ts";
import { Engine, type EngineSettings, must } from "./engine.ts";
import { METRICS } from "./metrics.ts";
import { FIRST_TOKENS, type FoundEngine } from "./open-engine.ts";
import { REQUESTS } from "./requests.ts";
import { type Original, restore } from "./restore.ts";
import { SLEEP } from "./sleep.ts";
import { WEIGHTS } from "./weights.ts";

const ALL: Readonly<Record<string, EngineCheck>> = {
  ...DATA_PLANE,
  ...REQUESTS,
  ...METRICS,
  ...CONTROL_PLANE,
  ...WEIGHTS,
  ...CACHES,
  ...ADAPTERS,
  ...SLEEP,
};

/** After all others: the engine has what it had before. */
const LAST = "left as it was";

export interface EngineChecksDeps {
  readonly api: EngineApi;
  readonly found: FoundEngine;
  readonly settings: EngineSettings;
  /** Ends the check that runs. */
  readonly signal: AbortSignal;
}

export class EngineChecks {
  readonly #deps: EngineChecksDeps;
  readonly #original: Original;

  constructor(deps: EngineChecksDeps) {
    this.#deps = deps;
    this.#original = { label: deps.found.label, weights: { areOriginal: true, wereLoaded: false } };
  }

  /** Each begins with an engine that is as it was, and nothing of it runs on after its end. */
  get all(): Record<string, RunCheck> {
    const checks = Object.entries(ALL).map(([name, check]): [string, RunCheck] => [name, () => this.#run(check)]);
    return { ...Object.fromEntries(checks), [LAST]: () => this.#leave() };
  }

  async #leave(): Promise<string> {
    const done = await this.restore();
    const { api, found } = this.#deps;
    const engine = this.#engine(api);
    const now = await engine.generate(found.facts.prompt, { max_tokens: FIRST_TOKENS, logprobs: 2 });
    const apart = difference(found.answer, now, engine.settings.tolerance);
    must(apart === undefined, `it answers otherwise than before: ${apart}`);
    await engine.settle();
    return `${done}; it answers as before`;
  }

  /** @param signal  ends the attempt @throws Error when the engine is not as it was */
  restore(signal?: AbortSignal): Promise<string> {
    const { api } = this.#deps;
    return restore(this.#engine(signal === undefined ? api : api.within(signal)), this.#original);
  }

  async #run(check: EngineCheck): Promise<string> {
    const { api, signal } = this.#deps;
    signal.throwIfAborted();
    const left = new AbortController();
    try {
      return await check(this.#engine(api.within(AbortSignal.any([signal, left.signal]))));
    } finally {
      left.abort();
      // What goes wrong here is seen by the next check, and by the last one.
      if (!signal.aborted) await this.restore().catch(() => undefined);
    }
  }

  #engine(api: EngineApi): Engine {
    return new Engine(api, this.#deps.found.facts, this.#deps.settings, this.#original.weights);
  }
}
