// SPDX-License-Identifier: Apache-2.0
// esbuild turns `using` in a loop into variables of the function: once a turn of the loop has thrown and was caught, every later turn
// throws the same error again. Only bundles are wrong, which is what images run, so no other test sees it.
import { execFileSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";

const ROOT = join(import.meta.dirname, "../..");
const BORDER = /^\s*(?:(?:export |async |static |public |private |get |set )*(?:function\b|#?\w+\()|.*=>\s*\{$)/u;
const LOOP = /^\s*(?:for|while|do)\b/u;

const indent = (line: string): number => line.length - line.trimStart().length;

/** The loop of its function that a line is in; files are formatted, so blocks are known by their indentation. */
function loopAround(lines: readonly string[], at: number): string | undefined {
  let depth = indent(lines[at] ?? "");
  for (const line of lines.slice(0, at).reverse()) {
    if (line.trim() === "" || indent(line) >= depth) continue;
    depth = indent(line);
    if (LOOP.test(line)) return line.trim();
    if (BORDER.test(line) && !/^\s*(?:if|else|try|catch|finally|switch)\b/u.test(line)) return undefined;
  }
  return undefined;
}

function found(text: string): string[] {
  const lines = text.split("\n");
  const isUsing = (line: string): boolean => /^\s*(?:await )?using \w/u.test(line);
  return lines.flatMap((line, i) => (isUsing(line) ? (loopAround(lines, i) ?? []) : []));
}

describe("using", () => {
  it("is in no loop of what is bundled", () => {
    const paths = execFileSync("git", ["ls-files", "services/*.ts"], { cwd: ROOT, encoding: "utf8" })
      .trim()
      .split("\n");
    const shipped = paths.filter((path) => !/\.test\.ts$|\/(?:test-support|bench|test)\//u.test(path));
    const loops = shipped.flatMap((path) => found(readFileSync(join(ROOT, path), "utf8")).map((loop) => [path, loop]));
    expect(shipped.length).toBeGreaterThan(100);
    expect(loops).toEqual([]);
  });

  it("is found in a loop, and not behind a function within it", () => {
    expect(found("  for (;;) {\n    try {\n      await using x = y();\n    } catch {}\n  }")).toEqual(["for (;;) {"]);
    expect(found("  for (const a of b) {\n    run(async () => {\n      using x = y();\n    });\n  }")).toEqual([]);
  });
});
