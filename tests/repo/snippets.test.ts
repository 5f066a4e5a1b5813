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

describe("programs in documents", () => {
  it("docs/tools-and-graders.md: the tool agent finds the tower's height", () => {
    const [program = "", ...more] = programs("docs/tools-and-graders.md");
    expect(more).toEqual([]);
    // Inside the repository, so that the SDK is found as it is in a project that has it installed.
    mkdirSync(join(root, ".whetstone"), { recursive: true });
    const folder = mkdtempSync(join(root, ".whetstone/snippet-"));
    writeFileSync(join(folder, "program.ts"), program);
    const { status, stdout, stderr } = spawnSync(process.execPath, [join(folder, "program.ts")], { encoding: "utf8" });
    rmSync(folder, { recursive: true });
    expect(status, stderr).toBe(0);
    expect(stdout).toMatch(/^1 \[/);
    expect(stdout).toContain("toolCalls: 1, toolErrors: 0");
  });
});
