// SPDX-License-Identifier: Apache-2.0
/**
 * Takes every mend of docs/faults.md away in turn, in a copy of the repository, and runs the test that guards it, which must
 * fail. Says of each what its test said; that they pass with the mends is what `make test` shows. Exit status 1 when one
 * does not fail.
 *
 *   node tests/planted/planted.ts [--json] [word …]
 *
 * A word chooses the mends that have it in their row, their description or their test. Those that need a cluster are left out
 * without KUBECONFIG.
 */
import { parseArgs } from "node:util";
import { copyRepository } from "./copy.ts";
import type { Mend } from "./mend.ts";
import { MENDS } from "./mends.ts";
import type { Outcome } from "./runner.ts";

const VERDICTS = { failed: "red", passed: "GREEN (bad)", broken: "broken (bad)" } as const;
/** Of a runner that did not say what it should. */
const TOLD_LINES = 30;

const { values, positionals: words } = parseArgs({ options: { json: { type: "boolean" } }, allowPositionals: true });

// Leaves by `exit`, which ends the test that runs and removes the copy.
for (const signal of ["SIGINT", "SIGTERM"]) process.once(signal, () => process.exit(130));

async function main(): Promise<void> {
  const startedAt = performance.now();
  const chosen = MENDS.filter((mend) => words.length === 0 || words.some((word) => isNamed(mend, word)));
  const here = chosen.filter(({ cluster }) => !cluster || process.env["KUBECONFIG"]);
  const bad: Mend[] = [];
  using copy = copyRepository();
  process.once("exit", () => {
    copy[Symbol.dispose]();
  });
  for (const mend of here) {
    using _taken = copy.plant(mend);
    const outcome = await copy.test(mend);
    if (outcome.result !== "failed") bad.push(mend);
    tell(mend, outcome);
  }
  const line = {
    mends: chosen.length,
    red: here.length - bad.length,
    bad: bad.map(({ row, without, test }) => ({ row, without, test })),
    needACluster: chosen.length - here.length,
    seconds: Math.round((performance.now() - startedAt) / 1000),
  };
  const text = `${line.red} red, ${bad.length} not, ${line.needACluster} left out: they need a cluster (KUBECONFIG)`;
  console.log(values.json ? JSON.stringify(line) : text);
  process.exitCode = bad.length > 0 || chosen.length === 0 ? 1 : 0;
}

function isNamed({ row, without, test }: Mend, word: string): boolean {
  return [row, without, test].some((text) => text.includes(word));
}

function tell({ row, without, test }: Mend, { result, why, output }: Outcome): void {
  process.stderr.write(`${VERDICTS[result]}\t${row} – without ${without} (${test}): ${why}\n`);
  if (result !== "failed") process.stderr.write(`${output.split("\n").slice(-TOLD_LINES).join("\n")}\n`);
}

await main();
