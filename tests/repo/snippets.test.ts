// SPDX-License-Identifier: Apache-2.0
// Programs that documents call runnable are run: TypeScript blocks that begin with an import of the SDK.
import { spawnSync } from "node:child_process";
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";

const root = join(import.meta.dirname, "../..");

function programs(document: string): string[] {
  const text = readFileSync(join(root, document), "utf8");
  return [...text.matchAll(/^```ts\n(import [^]*?)^```$/gmu)].map((match) => match[1] as string);
}

/** What the document's one program prints. */
function outputOf(document: string): string {
  const [program = "", ...more] = programs(document);
  expect(more).toEqual([]);
  // Inside the repository, so that the SDK is found as it is in a project that has it installed.
  mkdirSync(join(root, ".whetstone"), { recursive: true });
  const folder = mkdtempSync(join(root, ".whetstone/snippet-"));
  writeFileSync(join(folder, "program.ts"), program);
  const env = { ...process.env, WHETSTONE_DATASETS: join(folder, "datasets") };
  const run = spawnSync(process.execPath, [join(folder, "program.ts")], { encoding: "utf8", env });
  rmSync(folder, { recursive: true });
  expect(run.status, run.stderr).toBe(0);
  return run.stdout;
}

describe("programs in documents", () => {
  it("docs/tools-and-graders.md: the tool agent finds the tower's height", () => {
    const output = outputOf("docs/tools-and-graders.md");
    expect(output).toMatch(/^1 \[/);
    expect(output).toContain("toolCalls: 1, toolErrors: 0");
  });

  it("docs/datasets.md: what is registered is loaded", () => {
    expect(outputOf("docs/datasets.md")).toBe("sums-0 { question: '1+1', answer: 2 }\n");
  });
});
