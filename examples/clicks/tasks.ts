// SPDX-License-Identifier: Apache-2.0
// Pages to train on and pages held out, and for SFT invented pages with a click by chance. `node tasks.ts FOLDER [SEED]` writes
// train.jsonl, heldout.jsonl and demonstrations.jsonl.
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { createRng, deriveSeed, type Rng } from "@whetstone/core";
import { LETTERS, pageText } from "./page.ts";

export const TASKS = ["click-dialog-2", "click-tab", "click-test-2", "focus-text-2"];
const TRAIN = 1024;
const HELD_OUT = 64;
const DEMONSTRATIONS = 4096;

const GOALS: readonly ((name: string) => string)[] = [
  (name) => `Click on the "${name}" button.`,
  (name) => `Click the button in the dialog box labeled "${name}".`,
  (name) => `Click on Tab #${name}.`,
  (name) => `Click button ${name}.`,
  (name) => `Click on a "${name}" widget.`,
  (name) => `Focus into the ${name} input textbox.`,
];
const ROLES = ["button", "button", "tab", "checkbox", "radio", "textbox"] as const;
const WORDS = "ok Ok OK submit Submit cancel Cancel yes no Next next previous Close Login ONE TWO 1 2 3 Tab".split(" ");
const SIGNS = `${LETTERS}${LETTERS.toUpperCase()}0123456789`;

/** A page of MiniWoB++ by its seed, the tasks in turn; `first` is where seeds that nothing else uses begin. */
function pages(split: string, first: number, count: number): string[] {
  return Array.from({ length: count }, (_, i) => {
    const payload = { miniwob: TASKS[i % TASKS.length], seed: first + i };
    return JSON.stringify({ id: `${split}-${i}`, source: payload.miniwob, payload });
  });
}

/** An invented page, and one of its elements by chance: the form of an answer, and nothing of what a goal asks for. */
function demonstration(rng: Rng, index: number): string {
  const elements = Array.from({ length: 2 + rng.integer(6) }, () => ({ role: rng.choice(ROLES), name: nameOf(rng) }));
  const turns = [
    { role: "user", content: pageText(rng.choice(GOALS)(nameOf(rng)), elements) },
    { role: "assistant", content: LETTERS[rng.integer(elements.length)] },
  ];
  return JSON.stringify({ id: `demonstration-${index}`, demonstration: turns });
}

/** A usual word, a number of a tab, or letters by chance. */
function nameOf(rng: Rng): string {
  if (rng.next() < 0.5) return rng.choice(WORDS);
  if (rng.next() < 0.2) return `Tab #${1 + rng.integer(6)}`;
  return Array.from({ length: 1 + rng.integer(6) }, () => rng.choice([...SIGNS])).join("");
}

function main(folder: string, seed: number): void {
  mkdirSync(folder, { recursive: true });
  const rng = createRng(deriveSeed(seed, "clicks"));
  const first = seed * 1_000_000;
  const files = {
    train: pages("train", first, TRAIN),
    heldout: pages("heldout", first + 500_000, HELD_OUT),
    demonstrations: Array.from({ length: DEMONSTRATIONS }, (_, i) => demonstration(rng, i)),
  };
  for (const [name, lines] of Object.entries(files))
    writeFileSync(join(folder, `${name}.jsonl`), `${lines.join("\n")}\n`);
}

if (import.meta.main) main(process.argv[2] ?? ".whetstone/clicks", Number(process.argv[3] ?? 1));
