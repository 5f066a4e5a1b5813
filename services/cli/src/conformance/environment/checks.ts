// SPDX-License-Identifier: Apache-2.0
/** The checks of `whet envs check`: each says what it saw, or throws what is wrong. */
import { sleep } from "@whetstone/core";
import { isReward } from "@whetstone/sdk";

import { type RunCheck, Skipped } from "../run-checks.ts";
import { type CheckSettings, Played, playEpisode, type Subject } from "./subject.ts";

type Check = (subject: Subject, settings: CheckSettings) => Promise<string>;

/** How many seeds are tried before they are said to make no difference. */
const SEEDS = 8;
/** Sessions that are left, one after the other; more than servers have room for by default. */
const LEFT = 24;
const FREED_WITHIN_MS = 10_000;
const LONG = 100_000;
const NO_ACTIONS: readonly unknown[] = [
  "",
  " ",
  "\u0000",
  "…😀",
  "x".repeat(LONG),
  {},
  { no: "action" },
  [],
  [1],
  1e300,
  true,
];

const answersInTime: Check = async (subject, settings) => {
  const { said, slowestMs } = await playEpisode(subject, settings);
  return `${said.length - 1} steps, slowest call ${Math.round(slowestMs)} ms`;
};

const sameSeedSameStart: Check = async (subject, settings) => {
  if (subject.seedable === false) throw new Skipped("it says that seeds do not decide its episodes");
  const start = async (seed: number): Promise<readonly string[]> =>
    (await playEpisode(subject, { ...settings, steps: 0 }, seed)).said;
  const first = await start(settings.seed);
  const differ = firstDifference(first, await start(settings.seed));
  if (differ !== undefined) throw new Error(`the same seed began in two ways: ${differ}`);
  for (let i = 1; i < SEEDS; i += 1)
    if (firstDifference(first, await start(settings.seed + i)) !== undefined)
      return `the same seed begins in the same way, seed ${settings.seed + i} in another`;
  return `${SEEDS} seeds begin in the same way: then the task, the steps or nothing is drawn`;
};

const sameSeedSameEpisode: Check = async (subject, settings) => {
  if (subject.seedable === false) throw new Skipped("it says that seeds do not decide its episodes");
  const [first, second] = [await playEpisode(subject, settings), await playEpisode(subject, settings)];
  const differ = firstDifference(first.said, second.said);
  if (differ !== undefined) throw new Error(`the same seed and actions gave different episodes: ${differ}`);
  return `two episodes of ${first.said.length - 1} steps are the same`;
};

/** Side by side each must go as it went alone. */
const sessionsAreApart: Check = async (subject, settings) => {
  if (settings.sessions < 2) throw new Skipped("--sessions is 1");
  const seeds = Array.from({ length: settings.sessions }, (_, i) => settings.seed + i);
  const alone: Played[] = [];
  for (const seed of seeds) alone.push(await playEpisode(subject, settings, seed));
  const together = seeds.map(() => new Played(subject, settings));
  try {
    await Promise.all(together.map((played, i) => played.reset(seeds[i] as number)));
    for (let i = 0; i < settings.steps; i += 1)
      await Promise.all(together.filter((played) => !played.isOver).map((played) => played.step()));
  } catch (error) {
    for (const { session } of together) session.abandon();
    throw new Error(`${seeds.length} sessions at once: ${(error as Error).message}`, { cause: error });
  }
  await Promise.all(together.map((played) => played.close()));
  if (subject.seedable === false)
    return `${seeds.length} sessions at once; what they say was not compared: seeds do not decide it`;
  for (const [i, { said }] of together.entries()) {
    const differ = firstDifference(alone[i]?.said ?? [], said);
    if (differ !== undefined) throw new Error(`beside others, seed ${seeds[i]} went another way than alone: ${differ}`);
  }
  return `${seeds.length} sessions at once went as they went alone`;
};

/** What is no action is the policy's fault: an observation, perhaps a reward, never an error. */
const judgesWhatIsNoAction: Check = async (subject, settings) => {
  let answered = 0;
  for (const action of NO_ACTIONS) {
    const played = new Played(subject, settings);
    const named = JSON.stringify(action).slice(0, 30);
    try {
      await played.reset(settings.seed);
      const { reward } = await played.step(action);
      if (reward !== undefined && !isReward(reward))
        throw new Error(`its reward is ${String(reward)}, not a finite number`);
      if (!played.isOver) await played.step();
      answered += 1;
    } catch (error) {
      played.session.abandon();
      throw new Error(`the action ${named}: ${(error as Error).message}`, { cause: error });
    }
    await played.close();
  }
  return `${answered} things that are no action were answered, and the episode went on or ended`;
};

/** The end needs a reward: without one the episode has no grade, which is not 0. */
const endIsGraded: Check = async (subject, settings) => {
  const { last, isOver } = await playEpisode(subject, settings);
  if (!isOver || last === undefined)
    throw new Skipped(`no episode ended within ${settings.steps} steps; give --actions that end one, or more --steps`);
  if (last.reward === undefined) throw new Error("the last step has no reward");
  if (!isReward(last.reward)) throw new Error(`the last step's reward is ${String(last.reward)}, not a finite number`);
  return `the last step's reward is ${last.reward}`;
};

/** At every moment that a client may choose. */
const closes: Check = async (subject, settings) => {
  const early = new Played(subject, settings);
  await early.reset(settings.seed);
  await early.close();
  const busy = new Played(subject, settings);
  await busy.reset(settings.seed);
  const step = busy.step().catch(() => undefined); // It may be answered, or fail: nobody waits for it.
  await busy.close();
  await busy.bounded("a step whose session was closed", step);
  return "before a step, and during one";
};

const leavesNothingOpen: Check = async (subject, settings) => {
  const before = await subject.openSessions?.();
  for (let i = 0; i < LEFT; i += 1) {
    const played = new Played(subject, settings);
    try {
      await played.reset(settings.seed);
    } catch (error) {
      throw new Error(`session ${i + 1}, after others were left: ${(error as Error).message}`, { cause: error });
    } finally {
      played.session.abandon();
    }
  }
  await playEpisode(subject, settings);
  if (before === undefined || subject.openSessions === undefined)
    return `${LEFT} sessions were left, and another one opened`;
  const end = performance.now() + FREED_WITHIN_MS;
  let open = await subject.openSessions();
  for (; open > before && performance.now() < end; open = await subject.openSessions()) await sleep(50);
  if (open > before) throw new Error(`${open - before} of ${LEFT} sessions that were left are still open`);
  return `${LEFT} sessions were left, and none is open`;
};

const CHECKS: Readonly<Record<string, Check>> = {
  deadlines: answersInTime,
  seeding: sameSeedSameStart,
  determinism: sameSeedSameEpisode,
  isolation: sessionsAreApart,
  "illegal actions": judgesWhatIsNoAction,
  "graded end": endIsGraded,
  close: closes,
  leaks: leavesNothingOpen,
};

/** All of them, for one environment. */
export function environmentChecks(subject: Subject, settings: CheckSettings): Record<string, RunCheck> {
  const checks = Object.entries(CHECKS).map(([name, check]): [string, RunCheck] => [
    name,
    () => check(subject, settings),
  ]);
  return Object.fromEntries(checks);
}

function firstDifference(first: readonly string[], second: readonly string[]): string | undefined {
  const length = Math.max(first.length, second.length);
  for (let i = 0; i < length; i += 1) {
    if (first[i] === second[i]) continue;
    return `${i === 0 ? "reset" : `step ${i}`}: ${shown(first[i])} and ${shown(second[i])}`;
  }
  return undefined;
}

function shown(said: string | undefined): string {
  return said === undefined ? "nothing" : said.slice(0, 120);
}
