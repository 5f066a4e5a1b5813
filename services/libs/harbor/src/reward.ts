// SPDX-License-Identifier: Apache-2.0
import { EpisodeError } from "@whetstone/sdk";
import { z } from "zod";

/** What the tests have written, by the reward's name. */
export type Rewards = Readonly<Record<string, number>>;

/** Python's `float`, without what is no number that can be trained on. */
const NUMBER = /^[+-]?(\d+(_\d+)*\.?(\d+(_\d+)*)?|\.\d+(_\d+)*)(e[+-]?\d+)?$/iu;
const Reward = z.union([z.number(), z.boolean().transform(Number)]);
const RewardsSchema = z.record(z.string().max(200), Reward);

/** Of `reward.txt`. @throws EpisodeError GRADER: no grade is not 0 (I6) */
export function rewardsOfText(text: string): Rewards {
  const trimmed = text.trim();
  const value = NUMBER.test(trimmed) ? Number(trimmed.replaceAll("_", "")) : Number.NaN;
  if (Number.isFinite(value)) return { reward: value };
  throw malformed("reward.txt", trimmed === "" ? "is empty" : `holds ${shown(trimmed)}, which is no finite number`);
}

/** Of `reward.json`: numbers by their names. @throws EpisodeError GRADER */
export function rewardsOfJson(text: string): Rewards {
  if (text.trim() === "") throw malformed("reward.json", "is empty");
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    throw malformed("reward.json", `holds ${shown(text)}, which is no JSON`);
  }
  const { data, success } = RewardsSchema.safeParse(value);
  if (success && Object.values(data).every(Number.isFinite)) return data;
  throw malformed("reward.json", `holds ${shown(text)}, which is no object of finite numbers`);
}

/** The one that counts: the named one, `reward`, or the only one. @throws EpisodeError GRADER */
export function rewardOf(rewards: Rewards, key: string | undefined): number {
  const names = Object.keys(rewards);
  const name = key ?? (names.length === 1 ? names[0] : "reward");
  const value = name === undefined ? undefined : rewards[name];
  if (value !== undefined) return value;
  const among = names.length === 0 ? "none at all" : names.join(", ");
  throw malformed("reward.json", `has no reward "${name ?? "reward"}", but ${among}: name one in rewardKey`);
}

export function malformed(file: string, why: string): EpisodeError {
  return new EpisodeError("GRADER", `the tests' /logs/verifier/${file} ${why}`);
}

function shown(text: string): string {
  return JSON.stringify(text.slice(0, 100));
}
