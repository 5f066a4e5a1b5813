// SPDX-License-Identifier: Apache-2.0
import { execFileSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { applyEdits, diffOf, reverseEdits } from "./edits.ts";
import type { Edit } from "./task.ts";

const text = "a\nb\nc\nd\n";
const edits: Edit[] = [
  { path: "x.py", line: 1, before: "a\n", after: "A\nAA\n" },
  { path: "x.py", line: 3, before: "c\n", after: "" },
];

describe("edits", () => {
  it("are applied, and undone", () => {
    const broken = applyEdits(new Map([["x.py", text]]), edits);
    expect(broken.get("x.py")).toBe("A\nAA\nb\nd\n");
    expect(applyEdits(broken, reverseEdits(edits)).get("x.py")).toBe(text);
  });

  it("are undone whatever they are", () => {
    const line = fc.stringMatching(/^[a-z]{0,3}$/u).map((word) => `${word}\n`);
    const block = fc.array(line, { maxLength: 3 });
    fc.assert(
      fc.property(fc.array(fc.tuple(block, block, line), { maxLength: 5 }), (parts) => {
        const made = { text: "", edits: [] as Edit[] };
        for (const [before, after, kept] of parts) {
          const at = made.text.split("\n").length;
          made.edits.push({ path: "x", line: at, before: before.join(""), after: after.join("") });
          made.text += before.join("") + kept;
        }
        const broken = applyEdits(new Map([["x", made.text]]), made.edits);
        expect(applyEdits(broken, reverseEdits(made.edits)).get("x")).toBe(made.text);
      }),
    );
  });

  it("that do not fit are a broken task", () => {
    const wrong = [{ path: "x.py", line: 2, before: "a\n", after: "" }];
    expect(() => applyEdits(new Map([["x.py", text]]), wrong)).toThrow(/x\.py: line 2 is not as the task says/u);
    expect(() => applyEdits(new Map(), wrong)).toThrow(expect.objectContaining({ code: "TASK_INVALID" }));
  });

  it("are a diff that patch understands", () => {
    const folder = mkdtempSync(join(tmpdir(), "whetstone-edits-"));
    writeFileSync(join(folder, "x.py"), text);
    execFileSync("patch", ["-p1", "-s"], { cwd: folder, input: diffOf(edits) });
    expect(readFileSync(join(folder, "x.py"), "utf8")).toBe("A\nAA\nb\nd\n");
    rmSync(folder, { recursive: true });
  });
});
