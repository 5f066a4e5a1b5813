// SPDX-License-Identifier: Apache-2.0
/** T35 of the engine protocol: adapters by name, each a policy of its own. */
import { Skipped } from "../run-checks.ts";
import { type Answer, same } from "./answer.ts";
import { shown } from "./engine-api.ts";
import { type Engine, must } from "./engine.ts";
import type { EngineCheck } from "./engine-check.ts";

const NAMES = ["whet-check@v1", "whet-check@v2"] as const;

const servesAdaptersByName: EngineCheck = async (engine) => {
  const { status, body } = await engine.api.post("/v1/load_lora_adapter", {});
  if (status === 404 || status === 403) throw new Skipped("it has no /v1/load_lora_adapter");
  const [first, second] = engine.settings.adapters;
  if (first === undefined || second === undefined)
    throw new Skipped("needs --adapter twice: two folders of adapters that the engine can read");
  must(status >= 400, `a load without name and folder answers ${status}: ${shown(body)}`);
  const folders = [first, second];
  try {
    for (const [i, name] of NAMES.entries())
      await engine.ok(
        "/v1/load_lora_adapter",
        { lora_name: name, lora_path: folders[i] },
        engine.settings.loadTimeoutMs,
      );
    const answers = await Promise.all(NAMES.map((name) => answerOf(engine, name)));
    must(!same(answers[0]?.logprobs, answers[1]?.logprobs), "two adapters answer alike, and at the same likelihood");
    for (const [i, name] of NAMES.entries())
      must(
        same((await answerOf(engine, name)).ids, answers[i]?.ids),
        `${name} answers otherwise alone than beside the other`,
      );
  } finally {
    for (const name of NAMES) await engine.api.post("/v1/unload_lora_adapter", { lora_name: name });
  }
  const gone = await engine.api.post(
    "/inference/v1/generate",
    engine.body(engine.facts.prompt, {}, { model: NAMES[0] }),
  );
  must(gone.status === 404, `an adapter that was unloaded answers ${gone.status}, not 404`);
  return "two at once answer each in its own way; unloaded, they are unknown";
};

function answerOf(engine: Engine, model: string): Promise<Answer> {
  return engine.generate(engine.facts.prompt, { max_tokens: 12 }, { model });
}

export const ADAPTERS: Readonly<Record<string, EngineCheck>> = { "T35 adapters": servesAdaptersByName };
