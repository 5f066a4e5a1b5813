// SPDX-License-Identifier: Apache-2.0
// An index of made passages: size, memory of building and of reading, queries a second, as one JSON line.
// Options: --passages N (default 1000000), --queries N (default 2000), --at-once N (default 8).
import { createWriteStream, mkdtempSync, readdirSync, rmSync, statSync } from "node:fs";
import { once } from "node:events";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { createRng } from "@whetstone/core";
import { IndexStore } from "@whetstone/search";

const { values } = parseArgs({
  options: { passages: { type: "string" }, queries: { type: "string" }, "at-once": { type: "string" } },
});
const PASSAGES = Number(values.passages ?? 1_000_000);
const QUERIES = Number(values.queries ?? 2_000);
const AT_ONCE = Number(values["at-once"] ?? 8);
const WORDS_OF_A_PASSAGE = 40;
const WORDS_OF_A_QUERY = 5;
const VOCABULARY = 200_000;

const rng = createRng(1);
/** The frequency of a word falls with its rank, as in a language (Zipf): the commonest is in most passages. */
const word = (): string => `w${Math.floor(VOCABULARY ** rng.next()).toString(36)}`;
const words = (count: number): string => Array.from({ length: count }, word).join(" ");

const root = mkdtempSync(join(tmpdir(), "whetstone-bench-search-"));
try {
  const corpus = join(root, "corpus.jsonl");
  await writeCorpus(corpus);
  const folder = join(root, "indexes");
  const [buildSeconds] = await timed(async () => {
    await using store = new IndexStore({ folder });
    await store.get(corpus);
  });
  const buildPeakMiB = process.resourceUsage().maxRSS / 1024;
  await using store = new IndexStore({ folder });
  const [openSeconds, index] = await timed(() => store.get(corpus));
  const times: number[] = [];
  let left = QUERIES;
  const cpu = process.cpuUsage();
  const [seconds] = await timed(() =>
    Promise.all(
      Array.from({ length: AT_ONCE }, async () => {
        while (left-- > 0) {
          const started = performance.now();
          await index.search(words(WORDS_OF_A_QUERY), 3);
          times.push(performance.now() - started);
        }
      }),
    ),
  );
  const { user, system } = process.cpuUsage(cpu);
  times.sort((a, b) => a - b);
  const [name = ""] = readdirSync(folder);
  const indexBytes = readdirSync(join(folder, name)).reduce(
    (sum, file) => sum + statSync(join(folder, name, file)).size,
    0,
  );
  const at = (share: number): number => rounded(times[Math.floor(times.length * share)] ?? 0);
  const line = {
    passages: index.size,
    corpusBytes: statSync(corpus).size,
    indexBytes,
    buildSeconds: rounded(buildSeconds),
    buildPeakMiB: Math.round(buildPeakMiB),
    openSeconds: rounded(openSeconds),
    peakMiB: Math.round(process.resourceUsage().maxRSS / 1024),
    rssMiB: Math.round(process.memoryUsage.rss() / 2 ** 20),
    atOnce: AT_ONCE,
    queriesPerSecond: Math.round(QUERIES / seconds),
    cpuMsPerQuery: rounded((user + system) / 1000 / QUERIES),
    p50Ms: at(0.5),
    p99Ms: at(0.99),
  };
  process.stdout.write(`${JSON.stringify(line)}\n`);
} finally {
  rmSync(root, { recursive: true, force: true });
}

async function writeCorpus(path: string): Promise<void> {
  const out = createWriteStream(path);
  for (let i = 0; i < PASSAGES; i += 1) {
    const passage = { id: `p${i}`, title: words(2), text: words(WORDS_OF_A_PASSAGE) };
    if (!out.write(`${JSON.stringify(passage)}\n`)) await once(out, "drain");
  }
  out.end();
  await once(out, "finish");
}

async function timed<T>(work: () => Promise<T>): Promise<[number, T]> {
  const started = performance.now();
  const result = await work();
  return [(performance.now() - started) / 1000, result];
}

function rounded(value: number): number {
  return Math.round(value * 100) / 100;
}
