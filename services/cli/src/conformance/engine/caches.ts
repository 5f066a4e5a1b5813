// SPDX-License-Identifier: Apache-2.0
/** T23 to T25 of the engine protocol: what is cached goes with the weights, and an answer that crosses a switch names both. */
import { Skipped } from "../run-checks.ts";
import { type Answer, cachedTokens, type Span } from "./answer.ts";
import { freeze } from "./control-plane.ts";
import { shown } from "./engine-api.ts";
import { type Engine, type Fields, must } from "./engine.ts";
import type { EngineCheck } from "./engine-check.ts";
import type { RunningAnswer } from "./running-answer.ts";
import { AGAIN, mustBe, NEW, shortAnswer } from "./weights.ts";
import { type Attempt, whileRunning } from "./while-running.ts";

function ask(engine: Engine, fields: Fields = {}): Promise<Answer> {
  return engine.generate(engine.facts.longPrompt, { max_tokens: 6, logprobs: 2 }, fields);
}

/** Fills the cache with the long prompt. @throws Skipped where the engine does not say what was cached */
async function fillCache(engine: Engine, fields: Fields = {}): Promise<Answer> {
  await ask(engine, fields);
  const second = await ask(engine, fields);
  const cached = cachedTokens(second);
  if (cached === undefined)
    throw new Skipped(
      "it does not say what was cached (usage.prompt_tokens_details; vLLM: --enable-prompt-tokens-details)",
    );
  must(cached > 0, `of a prompt of ${engine.facts.longPrompt.length} tokens that came again 0 were cached`);
  return second;
}

const clearsItsCache: EngineCheck = async (engine) => {
  await engine.ok("/reset_prefix_cache");
  const cold = await ask(engine);
  must((cachedTokens(cold) ?? 0) === 0, `after /reset_prefix_cache ${cachedTokens(cold)} tokens were cached`);
  const warm = await fillCache(engine);
  mustBe("with a cached prompt", cold, warm, engine);
  await engine.pause("abort", true);
  await engine.resume();
  const cleared = await ask(engine);
  must(cachedTokens(cleared) === 0, `after a pause with clear_cache=true ${cachedTokens(cleared)} tokens were cached`);
  mustBe("after a pause with clear_cache=true", cold, cleared, engine);
  return `${cachedTokens(warm)} of ${engine.facts.longPrompt.length} tokens cached, 0 after a pause with clear_cache=true`;
};

const saltsItsCache: EngineCheck = async (engine) => {
  await engine.ok("/reset_prefix_cache");
  await fillCache(engine, { cache_salt: "whet-check:1" });
  const other = await ask(engine, { cache_salt: "whet-check:2" });
  must(cachedTokens(other) === 0, `${cachedTokens(other)} tokens were read from the cache of another cache_salt`);
  const { model, otherModel } = engine.settings;
  if (model === undefined || otherModel === undefined)
    return "nothing is read across salts; with --model and --other-model a switch without clear_cache is tried, too";
  await engine.switchTo(otherModel, NEW);
  const fresh = await ask(engine);
  await engine.switchTo(model, AGAIN);
  await fillCache(engine, { cache_salt: "whet-check:3" });
  await engine.switchTo(otherModel, NEW, false);
  mustBe(
    "with a new salt after a switch without clear_cache",
    fresh,
    await ask(engine, { cache_salt: "whet-check:4" }),
    engine,
  );
  await engine.switchTo(model, AGAIN);
  return "nothing is read across salts; a new salt is fresh after a switch without clear_cache";
};

const crossingAnswerNamesBoth: EngineCheck = async (engine) => {
  if ((await shortAnswer(engine)).spans === undefined) throw new Skipped("its answers name no weight_versions");
  const old = await engine.label();
  return await whileRunning(engine, { count: 1, until: "a pause arrives" }, (attempt) => cross(engine, attempt, old));
};

/** An answer crosses a switch. @param old  the label that it began under */
async function cross(engine: Engine, attempt: Attempt, old: string): Promise<string> {
  const { model, otherModel } = engine.settings;
  const [running] = attempt.answers as [RunningAnswer];
  const seen = await freeze(engine, attempt, true);
  if (model !== undefined && otherModel !== undefined) await engine.mustReload(otherModel);
  await engine.setLabel(NEW);
  await engine.resume();
  const { ids, spans } = await running.end();
  must(ids.length === attempt.length, `it ended after ${ids.length} of ${attempt.length} tokens`);
  const expected: Span[] = [
    { version: old, start: 0, end: seen },
    { version: NEW, start: seen, end: attempt.length },
  ];
  must(
    JSON.stringify(spans) === JSON.stringify(expected),
    `weight_versions are ${shown(spans)}, not ${shown(expected)}`,
  );
  return `${seen} tokens under the old label, ${attempt.length - seen} under the new one`;
}

export const CACHES: Readonly<Record<string, EngineCheck>> = {
  "T23 prefix cache": clearsItsCache,
  "T24 cache_salt": saltsItsCache,
  "T25 spans": crossingAnswerNamesBoth,
};
