// SPDX-License-Identifier: Apache-2.0
/** T10 to T15 of the engine protocol: pause and resume, abort, clients that leave. */
import { sleep } from "@whetstone/core";

import { Skipped } from "../run-checks.ts";
import { same } from "./answer.ts";
import { shown } from "./engine-api.ts";
import { ENDS_WITHIN_MS, type Engine, must, type PauseMode, waitUntil } from "./engine.ts";
import type { EngineCheck } from "./engine-check.ts";
import type { RunningAnswer } from "./running-answer.ts";

/** What was sampled before a pause may be counted, and may arrive, a moment after its answer. */
const STRAGGLES_MS = 150;
/** Long enough for many tokens. */
const WATCHED_MS = 200;
const LONG_STREAMS = 4;
const ROUNDS = 5;
const LEAVING = 8;

const pauseEndsAnswers: EngineCheck = async (engine) => {
  const running = await startInterruptible(engine, LONG_STREAMS);
  const began = performance.now();
  await engine.pause("abort");
  const ends = Promise.all(running.map((answer) => answer.end(ENDS_WITHIN_MS))).then((answers) => ({
    answers,
    tookMs: Math.round(performance.now() - began),
  }));
  const [{ answers, tookMs }] = await Promise.all([ends, mustSampleNothing(engine)]);
  const { longAnswer } = engine.facts;
  for (const { finishReason, ids, spans } of answers) {
    // vLLM before 0.32 ends an aborted stream without a reason.
    const isAborted = finishReason === "abort" || (finishReason === undefined && ids.length < longAnswer);
    must(isAborted, `an answer that was paused with mode=abort ends with ${finishReason}, ${ids.length} tokens`);
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
};

/** Answers of which at least half is still to come. */
async function startInterruptible(engine: Engine, count: number): Promise<RunningAnswer[]> {
  await engine.settle();
  const running = await engine.startLong(count);
  if (running.some((answer) => answer.isOver || answer.tokens > engine.facts.longAnswer / 2))
    throw tooShort(engine.facts.longAnswer);
  return running;
}

export function tooShort(tokens: number): Skipped {
  return new Skipped(`its answers of ${tokens} tokens are over before anything can be done to them`);
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

const waitsForAnswers: EngineCheck = async (engine) => {
  const count = Math.min(100, engine.facts.longAnswer);
  const running = engine.start(engine.facts.prompt, { max_tokens: count });
  await running.begun;
  await engine.pause("wait");
  const { ids, finishReason } = await running.end(ENDS_WITHIN_MS);
  must(
    finishReason === "length" && ids.length === count,
    `its answer ended with ${finishReason}, ${ids.length} tokens`,
  );
  await mustSampleNothing(engine);
  await engine.resume();
  return `an answer of ${count} tokens went on to its end`;
};

const keepsAnswers: EngineCheck = async (engine) => {
  const { longAnswer, prompt } = engine.facts;
  const [running] = (await startInterruptible(engine, 1)) as [RunningAnswer];
  await freeze(engine, running, "keep");
  await engine.resume();
  const { ids, finishReason } = await running.end();
  must(ids.length === longAnswer && finishReason === "length", `it ended with ${finishReason}, ${ids.length} tokens`);
  // The beginning is enough: rounding may part long answers that were computed in other batches.
  const alone = await engine.generate(prompt, { max_tokens: 16 });
  must(same(ids.slice(0, 16), alone.ids), `it went another way than alone: ${shown(ids.slice(0, 16))}`);
  return `an answer stood still, and went on to its ${longAnswer} tokens`;
};

/** Pauses an answer in its middle. @returns its tokens so far */
export async function freeze(
  engine: Engine,
  running: RunningAnswer,
  mode: PauseMode,
  clearCache = false,
): Promise<number> {
  await engine.pause(mode, clearCache);
  await mustSampleNothing(engine);
  if (running.isOver) throw new Error(`a pause with mode=${mode} ended an answer: ${await howItEnded(running)}`);
  return running.tokens;
}

const abortsOne: EngineCheck = async (engine) => {
  const [first, second, third] = (await startInterruptible(engine, 3)) as [RunningAnswer, RunningAnswer, RunningAnswer];
  await abort(engine, "/abort_requests", first);
  await mustGoOn(engine, [second, third]);
  await abort(engine, "/inference/v1/abort_requests", second);
  await mustGoOn(engine, [third]);
  await engine.ok("/abort_requests", { request_ids: [third.requestId] });
  await engine.idle();
  return "by both routes; the others went on, and their slots are free";
};

async function abort(engine: Engine, path: `/${string}`, running: RunningAnswer): Promise<void> {
  const { longAnswer } = engine.facts;
  if (running.tokens > longAnswer / 2) throw tooShort(longAnswer);
  await engine.ok(path, { request_ids: [running.requestId] });
  const { finishReason, ids } = await running.end(ENDS_WITHIN_MS);
  const isAborted = finishReason === "abort" || (finishReason === undefined && ids.length < longAnswer);
  must(isAborted, `${path}: the request ends with ${finishReason}, ${ids.length} tokens`);
}

/** They bring tokens, or have come to their own end. */
async function mustGoOn(engine: Engine, others: readonly RunningAnswer[]): Promise<void> {
  const before = others.map(({ tokens }) => tokens);
  await waitUntil(
    () => others.every((one, i) => one.isOver || one.tokens > (before[i] as number)),
    "another answer stands still after an abort, and has no token",
  );
  for (const one of others) {
    if (!one.isOver) continue;
    const { finishReason, ids } = await one.end();
    const isWhole = finishReason === "length" && ids.length === engine.facts.longAnswer;
    must(isWhole, `an abort of one ended another: ${finishReason}, ${ids.length} tokens`);
  }
}

const hearsClientsLeave: EngineCheck = async (engine) => {
  await engine.settle();
  const used = await engine.metric("kv_cache_usage_perc");
  const sampled = await engine.metric("generation_tokens_total");
  let slowestMs = 0;
  for (let round = 0; round < ROUNDS; round += 1) {
    const running = await engine.startLong(LEAVING);
    for (const answer of running) answer.leave();
    slowestMs = Math.max(slowestMs, await engine.idle());
  }
  const share =
    ((await engine.metric("generation_tokens_total")) - sampled) / (ROUNDS * LEAVING * engine.facts.longAnswer);
  must(share < 0.5, `${Math.round(share * 100)} % of the answers that nobody waited for were sampled all the same`);
  const now = await engine.metric("kv_cache_usage_perc");
  must(Math.abs(now - used) < 1e-6, `vllm:kv_cache_usage_perc is ${now} afterwards, ${used} before`);
  return `${ROUNDS * LEAVING} clients left, free again within ${slowestMs} ms`;
};

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
