// SPDX-License-Identifier: Apache-2.0
// Files with invented names and a question to each, and for SFT invented notes with a call or an answer by chance.
// `node tasks.ts FOLDER [SEED]` writes train.jsonl, heldout.jsonl and demonstrations.jsonl.
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { createRng, deriveSeed, type Rng } from "@whetstone/core";
import { inventedNames } from "@whetstone/search";
import { ANSWER, TOOLS } from "./agent.ts";
import { LETTERS } from "./notes.ts";

const TRAIN = 1024;
const HELD_OUT = 64;
const DEMONSTRATIONS = 4096;
/** What a file may tell; each tells of three. */
const FACTS = ["founder", "seat", "river", "patron", "teacher", "source"];
const FACTS_TOLD = 3;

export interface Question {
  readonly question: string;
  readonly answer: string;
  /** Texts by path. */
  readonly files: Readonly<Record<string, string>>;
}

type Ask = (names: Generator<string, never>, rng: Rng) => Question;

/** A folder with a file and a folder, which has a file, too. */
function folderOf(names: Generator<string, never>) {
  const [folder, file, inner, hidden] = Array.from({ length: 4 }, () => names.next().value) as Four;
  return { folder, file, inner, hidden, files: { [`${folder}/${file}`]: "", [`${folder}/${inner}/${hidden}`]: "" } };
}

type Four = [string, string, string, string];

/** Who wants to answer has to read, to list (twice), or to search. */
export const KINDS: Readonly<Record<string, Ask>> = {
  fact(names, rng) {
    const file = names.next().value;
    const told = rng
      .shuffle(FACTS)
      .slice(0, FACTS_TOLD)
      .map((fact) => ({ fact, name: names.next().value }));
    const asked = rng.choice(told);
    const text = told.map(({ fact, name }) => `${fact} ${name}\n`).join("");
    return { question: `What does ${file} say of the ${asked.fact}?`, answer: asked.name, files: { [file]: text } };
  },
  file(names) {
    const { folder, file, files } = folderOf(names);
    return { question: `What file lies in ${folder}?`, answer: file, files };
  },
  folder(names) {
    const { folder, inner, files } = folderOf(names);
    return { question: `What folder lies in ${folder}?`, answer: inner, files };
  },
  holder(names) {
    const { inner, hidden, files } = folderOf(names);
    return { question: `What holds ${hidden}?`, answer: inner, files };
  },
};

/** The kinds in turn. */
function tasks(split: string, count: number, names: Generator<string, never>, rng: Rng): string[] {
  const kinds = Object.entries(KINDS);
  return Array.from({ length: count }, (_, i) => {
    const [source, ask] = kinds[i % kinds.length] as (typeof kinds)[number];
    return JSON.stringify({ id: `${split}-${i}`, source, payload: ask(names, rng) });
  });
}

/** A question, and a call by chance; or what a tool answered to another one, and a call or an answer by chance. */
function demonstration(rng: Rng, index: number): string {
  let names = 1;
  const fresh = (): string => LETTERS[names++] ?? "?";
  const lines = [inventedQuestion(rng)];
  for (let i = rng.integer(3); i > 0; i -= 1)
    lines.push(`${rng.choice(Object.keys(TOOLS))} a: ${inventedOutput(rng, fresh)}.`);
  const isAnswered = lines.length > 1 && rng.next() < 0.7;
  const what = isAnswered ? ANSWER : rng.choice(Object.keys(TOOLS));
  const turns = [
    { role: "user", content: lines.join("\n") },
    { role: "assistant", content: `${what}${LETTERS[rng.integer(names)]}` },
  ];
  return JSON.stringify({ id: `demonstration-${index}`, demonstration: turns });
}

function inventedQuestion(rng: Rng): string {
  const ofFact = `What does a say of the ${rng.choice(FACTS)}?`;
  return rng.choice([ofFact, "What file lies in a?", "What folder lies in a?", "What holds a?"]);
}

function inventedOutput(rng: Rng, fresh: () => string): string {
  const named = (words: readonly string[]): string => words.map((word) => `${word} ${fresh()}`).join(", ");
  const outputs = [
    () => "error",
    () => named(["in"]),
    () => named(rng.shuffle(["file", "folder"])),
    () => named(rng.shuffle(FACTS).slice(0, FACTS_TOLD)),
  ];
  return rng.choice(outputs)();
}

function main(folder: string, seed: number): void {
  mkdirSync(folder, { recursive: true });
  const rng = createRng(deriveSeed(seed, "mcp-tools"));
  const names = inventedNames(rng);
  const files = {
    train: tasks("train", TRAIN, names, rng),
    heldout: tasks("heldout", HELD_OUT, names, rng),
    demonstrations: Array.from({ length: DEMONSTRATIONS }, (_, i) => demonstration(rng, i)),
  };
  for (const [name, lines] of Object.entries(files))
    writeFileSync(join(folder, `${name}.jsonl`), `${lines.join("\n")}\n`);
}

if (import.meta.main) main(process.argv[2] ?? ".whetstone/mcp-tools", Number(process.argv[3] ?? 1));
