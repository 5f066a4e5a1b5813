// SPDX-License-Identifier: Apache-2.0
import type { Rng } from "@whetstone/core";
import { EpisodeError } from "@whetstone/sdk";
import { type Entity, type Fact, passageOf } from "./world.ts";

export interface MadeQuestion {
  readonly question: string;
  readonly answer: string;
  /** The entities on the way, from the one that the question names to the answer. */
  readonly path: readonly string[];
}

/** Tries for each question before it is said that there are not so many. */
const TRIES = 200;

/**
 * Questions whose answer is so many facts away from the entity that they name, each fact in a passage of its own. None is asked twice,
 * and where there are several hops no answer stands in the first passage.
 */
export function makeQuestions(world: readonly Entity[], count: number, hops: number, rng: Rng): MadeQuestion[] {
  const made = new Map<string, MadeQuestion>();
  for (let tries = 0; made.size < count; tries += 1) {
    if (tries > TRIES * count)
      throw new EpisodeError("TASK", `there are only ${made.size} questions of ${hops} hops in this world`);
    const chain = walk(rng.choice(world), hops, rng);
    if (chain === undefined) continue;
    const question = questionOf(chain);
    made.set(question.question, question);
  }
  return [...made.values()];
}

/** Undefined: it came back to where it was, or the answer is too near. */
function walk(start: Entity, hops: number, rng: Rng): readonly Fact[] | undefined {
  const chain: Fact[] = [];
  const seen = new Set([start]);
  for (let at = start; chain.length < hops;) {
    const fact = rng.choice(at.facts);
    if (seen.has(fact.to)) return undefined;
    seen.add(fact.to);
    chain.push(fact);
    at = fact.to;
  }
  const answer = chain.at(-1)?.to.name ?? "";
  return hops > 1 && passageOf(start).text.includes(answer) ? undefined : chain;
}

function questionOf(chain: readonly Fact[]): MadeQuestion {
  const path = [chain[0]?.from.name ?? "", ...chain.map(({ to }) => to.name)];
  const phrases = chain.map(({ relation }) => relation.phrase).reverse();
  return { question: `What is ${phrases.join(" ")} ${path[0]}?`, answer: path.at(-1) ?? "", path };
}
