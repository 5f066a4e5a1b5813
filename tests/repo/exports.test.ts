// SPDX-License-Identifier: Apache-2.0
// What a library offers, somebody uses: another package, an example, a document. Types are there for signatures and not counted.
import { execFileSync } from "node:child_process";
import { existsSync, readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { describe, expect, it } from "vitest";
import { LIBRARIES } from "./import-rules.ts";
import { root } from "./imports.ts";

const texts = new Map(
  execFileSync("git", ["ls-files", "--", "*.ts", "*.md", "*.yaml", "*.json"], { cwd: root })
    .toString()
    .trim()
    .split("\n")
    .filter((file) => !/^(proto\/gen\/|package-lock\.json)/.test(file) && existsSync(join(root, file)))
    .map((file) => [file, new Set(readFileSync(join(root, file), "utf8").match(/\w+/g) ?? [])]),
);

/** Files whose exports are a library's interface: the values of `exports` in its package.json. */
function interfacesOf(library: string): string[] {
  const folder = `services/libs/${library}`;
  const { exports = {} } = JSON.parse(readFileSync(join(root, folder, "package.json"), "utf8")) as {
    exports?: Record<string, string>;
  };
  return Object.values(exports)
    .filter((file) => file.endsWith(".ts"))
    .map((file) => join(folder, file));
}

function exportedValues(file: string): string[] {
  const text = readFileSync(join(root, file), "utf8");
  const passedOn = [...text.matchAll(/export \* from "(.*)"/g)].map((match) => join(dirname(file), match[1] as string));
  const listed = [...text.matchAll(/export \{([^}]*)\}/g)].flatMap((match) => (match[1] ?? "").split(","));
  const declared = [...text.matchAll(/export (?:async )?(?:const|function\*?|class|abstract class) (\w+)/g)];
  return [
    ...passedOn.flatMap(exportedValues),
    ...listed
      .map((name) => name.trim())
      .filter((name) => name !== "" && !name.startsWith("type "))
      .map((name) => name.split(" as ").at(-1) as string),
    ...declared.map((match) => match[1] as string),
  ];
}

function isUsed(name: string, mayUse: (file: string) => boolean): boolean {
  return [...texts].some(([file, words]) => mayUse(file) && words.has(name));
}

/** An index is there for others alone; a module of its own may also be used by its neighbours. */
function isOutside(user: string, exporting: string, own: string): boolean {
  return exporting.endsWith("/index.ts") ? !user.startsWith(`${own}src/`) : user !== exporting;
}

describe("exports", () => {
  it.each(Object.keys(LIBRARIES))("each value that %s exports is used outside it", (library) => {
    const own = `services/libs/${library}/`;
    const unused = interfacesOf(library)
      .flatMap((file) => exportedValues(file).map((name) => ({ file, name })))
      .filter(({ file, name }) => !isUsed(name, (user) => isOutside(user, file, own)))
      .map(({ file, name }) => `${file} exports ${name}`);
    expect(unused).toEqual([]);
  });
});
