// SPDX-License-Identifier: Apache-2.0
// For SFT invented notes with a letter by chance. `node tasks.ts FOLDER [SEED]` writes demonstrations.jsonl; `whet tasks make search`
// makes the questions.
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { createRng, deriveSeed, type Rng } from "@whetstone/core";
import { LETTERS } from "./notes.ts";

const DEMONSTRATIONS = 4096;
const ASKED = "founder seat birthplace teacher river patron source first climber".split(" ");
const SAYS = ["was founded by", "has its seat in", "was born in", "was taught by", "lies on the river", "rises on"];
const KINDS = ["guild", "person", "town", "river", "peak"];

/** A question and up to two passages that have nothing to do with it, and the letter of one of their names by chance. */
function demonstration(rng: Rng, index: number): string {
  const passages = rng.integer(3);
  const lines = [`What is the ${rng.choice(ASKED)} of the ${rng.choice(ASKED)} of a?`];
  let names = 1;
  for (let i = 0; i < passages; i += 1) {
    const about = LETTERS[rng.integer(names)];
    const facts = Array.from({ length: 1 + rng.integer(2) }, () => `${about} ${rng.choice(SAYS)} ${LETTERS[names++]}.`);
    lines.push([`${about} is a ${rng.choice(KINDS)}.`, ...facts].join(" "));
  }
  const letter = LETTERS[rng.integer(names)] ?? "";
  const turns = [
    { role: "user", content: lines.join("\n") },
    { role: "assistant", content: rng.next() < 0.4 ? letter.toUpperCase() : letter },
  ];
  return JSON.stringify({ id: `demonstration-${index}`, demonstration: turns });
}

function main(folder: string, seed: number): void {
  mkdirSync(folder, { recursive: true });
  const rng = createRng(deriveSeed(seed, "multi-hop"));
  const lines = Array.from({ length: DEMONSTRATIONS }, (_, i) => demonstration(rng, i));
  writeFileSync(join(folder, "demonstrations.jsonl"), `${lines.join("\n")}\n`);
}

if (import.meta.main) main(process.argv[2] ?? ".whetstone/multi-hop", Number(process.argv[3] ?? 1));
