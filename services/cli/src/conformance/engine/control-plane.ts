// SPDX-License-Identifier: Apache-2.0
/** T10 to T15 of the engine protocol: pause and resume, abort, clients that leave. */
import { sleep } from "@whetstone/core";

import { same } from "./answer.ts";
import { shown } from "./engine-api.ts";
import { ENDS_WITHIN_MS, type Engine, must, waitUntil } from "./engine.ts";
import type { EngineCheck } from "./engine-check.ts";
import type { RunningAnswer } from "./running-answer.ts";
import { type Attempt, whileRunning } from "./while-running.ts";

/** What was sampled before a pause may be counted, and may arrive, a moment after its answer. */
const STRAGGLES_MS = 150;
/** Long enough for many tokens. */
const WATCHED_MS = 200;
const LONG_STREAMS = 4;
const ROUNDS = 5;
const LEAVING = 8;

const pauseEndsAnswers: EngineCheck = (engine) =>
  whileRunning(engine, { count: LONG_STREAMS, until: "a pause arrives" }, async (attempt) => {
    const began = performance.now();
    await attempt.tell(() => engine.pause("abort"));
    const ended = Promise.all(attempt.answers.map((answer) => answer.end(ENDS_WITHIN_MS)));
    const ends = ended.then((answers) => ({ answers, tookMs: Math.round(performance.now() - began) }));
    const [{ answers, tookMs }] = await Promise.all([ends, mustSampleNothing(engine)]);
    for (const [i, { ids, spans }] of answers.entries()) {
      await mustBeCut(attempt, attempt.answers[i] as RunningAnswer, "an answer that was paused with mode=abort");
      must(ids.length > 0, "an answer that was aborted lost its tokens");
      const named = spans?.at(-1)?.end;
      must(
        named === undefined || named === ids.length,
        `its weight_versions end at ${named}, its tokens at ${ids.length}`,
      );
    }
    await mustSampleNothing(engine);
    await engine.resume();
    return `${LONG_STREAMS} answers ended after ${tookMs} ms with their tokens; then nothing was sampled`;
  });

/** @param what  was aborted */
async function mustBeCut(attempt: Attempt, answer: RunningAnswer, what: string): Promise<void> {
  const { finishReason, ids } = await answer.end(ENDS_WITHIN_MS);
  const ends = `${what} ends with ${finishReason}, ${ids.length} tokens`;
  if (finishReason === "length" && ids.length === attempt.length) throw attempt.missed(answer, ends);
  // vLLM before 0.32 ends an aborted stream without a reason.
  must(finishReason === "abort" || (finishReason === undefined && ids.length < attempt.length), ends);
}

/** Invariant 1 of the protocol: between the answer to a pause and the resume no token is sampled. */
export async function mustSampleNothing(engine: Engine): Promise<void> {
  await sleep(STRAGGLES_MS);
  const before = await engine.metric("generation_tokens_total");
  await sleep(WATCHED_MS);
  const sampled = (await engine.metric("generation_tokens_total")) - before;
  must(sampled === 0, `${sampled} tokens were sampled while it was paused`);
}

const queuesWhilePaused: EngineCheck = async (engine) => {
  await engine.pause("abort");
  const waiting = engine.start(engine.facts.prompt, { max_tokens: 3 });
  await sleep(WATCHED_MS);
  if (waiting.isOver)
    throw new Error(`a request that came while it was paused was not queued: ${await howItEnded(waiting)}`);
  must(waiting.tokens === 0, "a request that came while it was paused was answered");
  await engine.setLabel("whet-check-next");
  await engine.resume();
  const { ids, finishReason, spans } = await waiting.end(engine.api.timeoutMs);
  must(
    ids.length === 3 && finishReason === "length",
    `once resumed it ended with ${finishReason}, ${ids.length} tokens`,
  );
  const wrong = spans?.find(({ version }) => version !== "whet-check-next");
  must(wrong === undefined, `its tokens are labelled ${wrong?.version}, which was over before it began`);
  return `a request waited for the resume${spans === undefined ? "" : ", and ran wholly under the new label"}`;
};

function howItEnded(waiting: RunningAnswer): Promise<string> {
  return waiting.end().then(
    ({ finishReason }) => `it ended with ${finishReason}`,
    (error: Error) => error.message,
  );
}

const pausesTwice: EngineCheck = async (engine) => {
  await engine.pause("abort");
  const waiting = engine.start(engine.facts.prompt, { max_tokens: 2 });
  await sleep(STRAGGLES_MS);
  await engine.pause("abort", false);
  await engine.resume();
  await engine.resume();
  const { status, body } = await engine.api.post("/pause?mode=whet-check");
  must(status === 400, `an unknown mode of pause answers ${status}: ${shown(body)}`);
  const ended = await howItEnded(waiting);
  return `twice each; what was queued before the second pause: ${ended}`;
};

const saysWhetherItIsPaused: EngineCheck = async (engine) => {
  const seen = [await engine.isPaused()];
  await engine.pause("abort");
  seen.push(await engine.isPaused());
  await engine.resume();
  seen.push(await engine.isPaused());
  must(seen.join() === "false,true,false", `/is_paused says ${seen.join(", ")} before, within and after a pause`);
  return "false, true within a pause, false";
};

const waitsForAnswers: EngineCheck = (engine) =>
  whileRunning(engine, { count: 1, until: "a pause arrives" }, async (attempt) => {
    const [running] = attempt.answers as [RunningAnswer];
    await attempt.tell(() => engine.pause("wait"));
    const { ids, finishReason } = await running.end();
    const ends = `its answer ended with ${finishReason}, ${ids.length} tokens`;
    must(finishReason === "length" && ids.length === attempt.length, ends);
    if (attempt.wasOver(running)) throw attempt.missed(running, ends);
    await mustSampleNothing(engine);
    await engine.resume();
    return `an answer of ${ids.length} tokens went on to its end`;
  });

const keepsAnswers: EngineCheck = (engine) =>
  whileRunning(engine, { count: 1, until: "a pause arrives" }, async (attempt) => {
    const [running] = attempt.answers as [RunningAnswer];
    await freeze(engine, attempt);
    await engine.resume();
    const { ids, finishReason } = await running.end();
    const isWhole = ids.length === attempt.length && finishReason === "length";
    must(isWhole, `it ended with ${finishReason}, ${ids.length} tokens`);
    // The beginning is enough: rounding may part long answers that were computed in other batches.
    const alone = await engine.generate(engine.facts.prompt, { max_tokens: 16 });
    must(same(ids.slice(0, 16), alone.ids), `it went another way than alone: ${shown(ids.slice(0, 16))}`);
    return `an answer stood still, and went on to its ${ids.length} tokens`;
  });

/** Pauses the one answer of an attempt in its middle. @returns its tokens so far */
export async function freeze(engine: Engine, attempt: Attempt, clearCache = false): Promise<number> {
  const [running] = attempt.answers as [RunningAnswer];
  await attempt.tell(() => engine.pause("keep", clearCache));
  await mustSampleNothing(engine);
  await attempt.arrive();
  attempt.leaveOthers();
  if (running.tokens === attempt.length)
    throw attempt.missed(running, "an answer went on to its end while it was paused with mode=keep");
  if (running.isOver) throw new Error(`a pause with mode=keep ended an answer: ${await howItEnded(running)}`);
  return running.tokens;
}

const abortsOne: EngineCheck = async (engine) => {
  for (const path of ["/abort_requests", "/inference/v1/abort_requests"] as const)
    await whileRunning(engine, { count: 3, until: "an abort arrives" }, async (attempt) => {
      const [first, ...others] = attempt.answers as [RunningAnswer, ...RunningAnswer[]];
      await attempt.tell(() => engine.ok(path, { request_ids: [first.requestId] }));
      await mustBeCut(attempt, first, `${path}: the request`);
      await mustGoOn(attempt, others);
      await engine.ok("/abort_requests", { request_ids: others.map(({ requestId }) => requestId) });
      attempt.leaveOthers();
      await engine.idle();
    });
  return "by both routes; the others went on, and their slots are free";
};

/** They bring tokens, or have come to their own end. */
async function mustGoOn({ length }: Attempt, others: readonly RunningAnswer[]): Promise<void> {
  const before = others.map(({ tokens }) => tokens);
  await waitUntil(
    () => others.every((one, i) => one.isOver || one.tokens > (before[i] as number)),
    "another answer stands still after an abort, and has no token",
  );
  for (const one of others) {
    if (!one.isOver) continue;
    const { finishReason, ids } = await one.end();
    const isWhole = finishReason === "length" && ids.length === length;
    must(isWhole, `an abort of one ended another: ${finishReason}, ${ids.length} tokens`);
  }
}

const hearsClientsLeave: EngineCheck = async (engine) => {
  await engine.settle();
  const used = await engine.metric("kv_cache_usage_perc");
  let slowestMs = 0;
  for (let round = 0; round < ROUNDS; round += 1) {
    const tookMs = await whileRunning(engine, { count: LEAVING, until: "a client leaves" }, (attempt) =>
      leave(engine, attempt),
    );
    slowestMs = Math.max(slowestMs, tookMs);
  }
  const now = await engine.metric("kv_cache_usage_perc");
  must(Math.abs(now - used) < 1e-6, `vllm:kv_cache_usage_perc is ${now} afterwards, ${used} before`);
  return `${ROUNDS * LEAVING} clients left, free again within ${slowestMs} ms`;
};

/** All clients leave at once. @returns after how many milliseconds nothing ran any more */
async function leave(engine: Engine, attempt: Attempt): Promise<number> {
  const asked = attempt.all.length * attempt.length;
  await attempt.tell(() => attempt[Symbol.dispose]());
  const whenHeard = await attempt.sampled();
  const tookMs = await engine.idle();
  const sampled = await attempt.sampled();
  if (sampled < asked / 2) return tookMs;
  const share = Math.round((sampled / asked) * 100);
  const complaint = `${share} % of the answers that nobody waited for were sampled all the same`;
  throw attempt.missedTokens(sampled - whenHeard, asked, complaint);
}

export const CONTROL_PLANE: Readonly<Record<string, EngineCheck>> = {
  "T10 pause": pauseEndsAnswers,
  "T11 queue": queuesWhilePaused,
  "T12 twice": pausesTwice,
  "T13 is_paused": saysWhetherItIsPaused,
  "pause wait": waitsForAnswers,
  "pause keep": keepsAnswers,
  "T14 abort": abortsOne,
  "T15 clients leave": hearsClientsLeave,
};
