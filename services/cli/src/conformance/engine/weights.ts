// SPDX-License-Identifier: Apache-2.0
/** T20 to T22 of the engine protocol: a switch of weights is all or nothing. */
import { Skipped } from "../run-checks.ts";
import { type Answer, difference, type Span } from "./answer.ts";
import { DAMAGES, type DamagedCopies, openDamagedCopies } from "./damaged-folder.ts";
import { shown } from "./engine-api.ts";
import { type Engine, must } from "./engine.ts";
import type { EngineCheck } from "./engine-check.ts";

export const NEW = "whet-check-new";
export const AGAIN = "whet-check-again";
const COMPARED = 12;

interface Folders {
  readonly model: string;
  readonly other: string;
}

/** @throws Skipped where the user gave none */
export function foldersOf({ settings: { model, otherModel: other } }: Engine): Folders {
  if (model === undefined || other === undefined)
    throw new Skipped("needs --model and --other-model: folders of weights that the engine can read");
  return { model, other };
}

const switchesAndBack: EngineCheck = async (engine) => {
  const { model, other } = foldersOf(engine);
  const original = await shortAnswer(engine);
  const before = difference(original, await switched(engine, model, AGAIN), engine.settings.tolerance);
  must(
    before === undefined,
    `with --model loaded it answers otherwise than before, so it served other weights: ${before}`,
  );
  const first = await switched(engine, other, NEW);
  const isOther = difference(original, first, engine.settings.tolerance) !== undefined;
  must(isOther, "with --other-model loaded it answers as before: it was not loaded, or is the same");
  mustBe("back with --model", original, await switched(engine, model, AGAIN), engine);
  mustBe("again with --other-model", first, await switched(engine, other, NEW), engine);
  mustBe("back with --model", original, await switched(engine, model, AGAIN), engine);
  return "--other-model answers otherwise, --model as before, each twice";
};

/** What it answers with those weights, all of it under their label. */
async function switched(engine: Engine, folder: string, label: string): Promise<Answer> {
  const before = await engine.label();
  await engine.pause("abort");
  await engine.mustReload(folder);
  const early = await engine.label();
  must(early === before, `the label became ${early} by a load; it is for the caller to set`);
  await engine.setLabel(label);
  must((await engine.label()) === label, `the label is ${await engine.label()} after it was set to ${label}`);
  await engine.resume();
  const answer = await shortAnswer(engine);
  const expected: Span[] = [{ version: label, start: 0, end: COMPARED }];
  const isLabelled = answer.spans === undefined || JSON.stringify(answer.spans) === JSON.stringify(expected);
  must(isLabelled, `weight_versions are ${shown(answer.spans)}, not ${shown(expected)}`);
  return answer;
}

export function shortAnswer(engine: Engine, fields = {}): Promise<Answer> {
  return engine.generate(engine.facts.prompt, { max_tokens: COMPARED, logprobs: 2 }, fields);
}

export function mustBe(when: string, expected: Answer, found: Answer, { settings }: Engine): void {
  const apart = difference(expected, found, settings.tolerance);
  must(apart === undefined, `${when}, ${apart}`);
}

/**
 * The good weights are loaded again before the engine is resumed, as the protocol has it: vLLM has none after some failed loads,
 * and would end with its next request.
 */
const failedLoadChangesNothing: EngineCheck = async (engine) => {
  const { model, other } = foldersOf(engine);
  const original = await shortAnswer(engine);
  await engine.pause("abort");
  const label = await engine.label();
  await mustFail(engine, "a folder that is not there", `${other}.whet-check-nothing`, label);
  await using copies = await openDamagedCopies(other);
  const tried = "reason" in copies ? [] : await tryDamages(engine, copies, label);
  await engine.mustReload(model);
  await engine.resume();
  mustBe("after loads that failed and one that did not", original, await shortAnswer(engine), engine);
  const more = "reason" in copies ? `damaged folders were not tried: ${copies.reason}` : tried.join(", ");
  return `refused, label and pause unchanged: a folder that is not there; ${more}`;
};

async function tryDamages(engine: Engine, copies: DamagedCopies, label: string): Promise<string[]> {
  const whole = await copies.make(undefined);
  const { status, body } = await engine.reload(whole);
  if (status !== 200) return [`damaged folders were not tried, since it refuses a copy of a whole one: ${shown(body)}`];
  for (const damage of DAMAGES) await mustFail(engine, damage, await copies.make(damage), label);
  return [...DAMAGES];
}

async function mustFail(engine: Engine, what: string, folder: string, label: string): Promise<void> {
  const { status } = await engine.reload(folder);
  must(status >= 400, `${what}: it loads it, and answers ${status}`);
  must((await engine.label()) === label, `${what}: the label became ${await engine.label()} by a load that failed`);
  must(await engine.isPaused(), `${what}: a load that failed resumed the engine`);
}

export const WEIGHTS: Readonly<Record<string, EngineCheck>> = {
  "T20/T21 switch": switchesAndBack,
  "T22 failed load": failedLoadChangesNothing,
};
