// SPDX-License-Identifier: Apache-2.0
/** T37 of the engine protocol: an engine that gives its memory back and takes it again. */
import { Skipped } from "../run-checks.ts";
import { cachedTokens, same } from "./answer.ts";
import { mustSampleNothing } from "./control-plane.ts";
import { shown } from "./engine-api.ts";
import { type Engine, type Fields, must } from "./engine.ts";
import type { EngineCheck } from "./engine-check.ts";

const sleepsAndWakes: EngineCheck = async (engine) => {
  if ((await isSleeping(engine)) === undefined) throw new Skipped("it has no /is_sleeping");
  const ask = () => engine.generate(engine.facts.longPrompt, { max_tokens: 6 });
  const before = await ask();
  await engine.pause("abort", false); // It is for the sleep to clear the caches.
  await engine.ok("/sleep?level=1");
  must((await isSleeping(engine)) === true, "/is_sleeping is false after /sleep");
  await engine.ok("/wake_up");
  // vLLM resumes as it wakes, so whoever had paused it pauses it again.
  if (!(await engine.isPaused())) await engine.pause("abort", false);
  must(await engine.isPaused(), "it cannot be paused once it is awake");
  // Another beginning, so that nothing of the long prompt is cached by it.
  const waiting = engine.start(engine.facts.prompt.toReversed(), { max_tokens: 2 });
  await mustSampleNothing(engine);
  must(!waiting.isOver, "a request was not queued while it was paused after /wake_up");
  await engine.resume();
  await waiting.end(engine.api.timeoutMs);
  must((await isSleeping(engine)) === false, "/is_sleeping is true after /wake_up and /resume");
  const after = await ask();
  must(same(after.ids, before.ids), `it answers ${shown(after.ids)} afterwards, ${shown(before.ids)} before`);
  const cached = cachedTokens(after) ?? 0;
  must(cached === 0, `${cached} tokens of a prompt from before were cached after it slept`);
  return "asleep, awake, paused as asked, caches cleared, the same answers";
};

/** Undefined: it has no such route. */
async function isSleeping(engine: Engine): Promise<boolean | undefined> {
  const { status, body } = await engine.api.get("/is_sleeping");
  if (status === 404 || status === 403) return undefined;
  const { is_sleeping: answer } = (body ?? {}) as Fields;
  must(typeof answer === "boolean", `GET /is_sleeping answered ${status}: ${shown(body)}`);
  return answer;
}

export const SLEEP: Readonly<Record<string, EngineCheck>> = { "T37 sleep": sleepsAndWakes };
