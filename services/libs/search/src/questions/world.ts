// SPDX-License-Identifier: Apache-2.0
import type { Rng } from "@whetstone/core";
import type { CorpusDocument } from "@whetstone/tools";

const KINDS = ["guild", "person", "town", "river", "peak"] as const;
type Kind = (typeof KINDS)[number];

export interface Relation {
  readonly from: Kind;
  readonly to: Kind;
  /** How a question names it: "the founder of". */
  readonly phrase: string;
  /** How a passage says it, between the names of the two. */
  readonly says: string;
}

export const RELATIONS: readonly Relation[] = [
  { from: "guild", to: "person", phrase: "the founder of", says: "was founded by" },
  { from: "guild", to: "town", phrase: "the seat of", says: "has its seat in" },
  { from: "person", to: "town", phrase: "the birthplace of", says: "was born in" },
  { from: "person", to: "person", phrase: "the teacher of", says: "was taught by" },
  { from: "town", to: "river", phrase: "the river of", says: "lies on the river" },
  { from: "town", to: "guild", phrase: "the patron of", says: "is under the patronage of" },
  { from: "river", to: "peak", phrase: "the source of", says: "rises on" },
  { from: "peak", to: "person", phrase: "the first climber of", says: "was first climbed by" },
];

export interface Fact {
  readonly relation: Relation;
  readonly from: Entity;
  readonly to: Entity;
}

export interface Entity {
  readonly name: string;
  readonly kind: Kind;
  readonly facts: Fact[];
}

/** Invented names, none twice: nothing about them can be known beforehand. */
export function* inventedNames(rng: Rng): Generator<string, never> {
  const [starts, vowels, ends] = [
    "b br d dr f g gr h k l m n p q r s sk t th v w z",
    "a e i o u ae ia ou",
    " l n r s x th rn",
  ].map((parts) => parts.split(" ")) as [string[], string[], string[]];
  const syllable = (): string => rng.choice(starts) + rng.choice(vowels) + rng.choice(ends);
  const given = new Set<string>();
  for (;;) {
    const name = syllable() + syllable() + syllable();
    if (given.has(name)) continue;
    given.add(name);
    yield name.charAt(0).toUpperCase() + name.slice(1);
  }
}

/** Entities with one fact for each relation of their kind; `size` of each kind, at least 2. */
export function inventWorld(size: number, names: Generator<string, never>, rng: Rng): readonly Entity[] {
  const entities = KINDS.flatMap((kind) =>
    Array.from({ length: size }, (): Entity => ({ name: names.next().value, kind, facts: [] })),
  );
  for (const from of entities)
    for (const relation of RELATIONS.filter((one) => one.from === from.kind)) {
      const others = entities.filter((one) => one.kind === relation.to && one !== from);
      from.facts.push({ relation, from, to: rng.choice(others) });
    }
  return entities;
}

export function passageOf({ name, kind, facts }: Entity): CorpusDocument {
  const sentences = facts.map(({ relation, to }) => `${name} ${relation.says} ${to.name}.`);
  return { id: name.toLowerCase(), title: name, text: [`${name} is a ${kind}.`, ...sentences].join(" ") };
}
