// SPDX-License-Identifier: Apache-2.0
// Documents that state lists or name files must stay true.
import { existsSync, globSync, readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { ERROR_CODES } from "@whetstone/core";
import { describe, expect, it } from "vitest";

const root = join(import.meta.dirname, "../..");
const documents = ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", ...globSync("docs/**/*.md", { cwd: root })];

/** What a link may name after `#`, made from the headings as GitHub does. */
function anchors(page: string): string[] {
  const headings = [...readFileSync(page, "utf8").matchAll(/^#+ (.+)$/gm)].map((match) => match[1] as string);
  return headings.map((heading) =>
    heading
      .toLowerCase()
      .replace(/[^\p{L}\p{N} _-]/gu, "")
      .replaceAll(" ", "-"),
  );
}

describe("documents", () => {
  it("docs/errors.md lists every error code and no other", () => {
    const text = readFileSync(join(root, "docs/errors.md"), "utf8");
    const rows = text.split("\n").filter((line) => line.startsWith("| `"));
    const listed = rows.flatMap((row) =>
      [...(row.split("|")[1] ?? "").matchAll(/`([A-Z_]+)`/g)].map((match) => match[1]),
    );
    expect(listed.sort()).toEqual([...ERROR_CODES].sort());
  });

  it.each(documents)("%s links only to what exists", (document) => {
    const text = readFileSync(join(root, document), "utf8");
    const links = [...text.matchAll(/\]\((?!https?:)([^)#]+)/g)].map((match) => match[1] as string);
    expect(links.filter((link) => !existsSync(join(root, dirname(document), link)))).toEqual([]);
  });

  it.each(documents)("%s links only to headings that exist", (document) => {
    const text = readFileSync(join(root, document), "utf8");
    const links = [...text.matchAll(/\]\((?!https?:)([^)#]*)#([^)]+)\)/g)];
    const missing = links.filter(([, file = "", anchor = ""]) => {
      const page = file === "" ? join(root, document) : join(root, dirname(document), file);
      return page.endsWith(".md") && !anchors(page).includes(anchor);
    });
    expect(missing.map(([link]) => link)).toEqual([]);
  });

  it("docs/README.md lists every page once, as how-to, reference or measurement", () => {
    const text = readFileSync(join(root, "docs/README.md"), "utf8");
    const listed = [...text.matchAll(/^\| \[([\w-]+\.md)\]/gm)].map((match) => match[1]);
    const pages = globSync("*.md", { cwd: join(root, "docs") }).filter((page) => page !== "README.md");
    expect(listed.toSorted()).toEqual(pages.toSorted());
  });

  it("ARCHITECTURE.md names every stop from a suspended object to the loop's end, eight at most, and each exists", () => {
    const text = readFileSync(join(root, "ARCHITECTURE.md"), "utf8");
    const stops = [...text.matchAll(/^\d\. `([\w/-]+\.ts)`, `(#?\w+)`/gm)].map(([, file = "", name = ""]) => ({
      file,
      name,
    }));
    expect(stops.length).toBeGreaterThan(0);
    expect(stops.length).toBeLessThanOrEqual(8);
    const source = (file: string): string => readFileSync(join(root, "services/controller/src", file), "utf8");
    expect(stops.filter(({ file, name }) => !source(file).includes(`${name}(`))).toEqual([]);
  });

  it("the make targets that documents name exist", () => {
    const targets = new Set(
      [...readFileSync(join(root, "Makefile"), "utf8").matchAll(/^([a-z0-9-]+):/gm)].map((m) => m[1]),
    );
    const named = documents.flatMap((document) =>
      [...readFileSync(join(root, document), "utf8").matchAll(/(?:`|^ {4})make ([a-z0-9-]+)/gm)].map(
        (match) => match[1],
      ),
    );
    expect(named.filter((target) => !targets.has(target))).toEqual([]);
  });
});
