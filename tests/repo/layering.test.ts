// SPDX-License-Identifier: Apache-2.0
// Imports go one way: tests → services → libs → proto; inside a service by the table of import-rules.ts.
import { globSync } from "node:fs";
import { basename, dirname, join, relative } from "node:path";
import { readFileSync } from "node:fs";
import { describe, expect, it } from "vitest";
import { FOLDERS, LIBRARIES, PURE } from "./import-rules.ts";
import { type Import, importedFile, importsBelow, importsOf, isTest, rings, root } from "./imports.ts";

const services = globSync("services/*/package.json", { cwd: root }).map((path) => basename(dirname(path)));

/** Imports of what runs, not of its tests. */
const programs = (folder: string): Import[] => importsBelow(folder).filter(({ file }) => !isTest(file));

/** The table's name for the folder of a file. */
function entryOf(table: Record<string, unknown>, base: string, file: string): string {
  const folder = relative(base, dirname(file)) || ".";
  const everyBeside = `${dirname(folder)}/*`;
  return everyBeside in table ? everyBeside : folder;
}

describe("layering", () => {
  it.each(Object.keys(LIBRARIES))("library %s imports only what it may", (library) => {
    const allowed = new Set((LIBRARIES[library] ?? []).map((name) => `@whetstone/${name}`));
    const wrong = programs(`services/libs/${library}`)
      .filter(({ target }) => target.startsWith("@whetstone/"))
      .filter(({ target }) => !allowed.has(target.split("/").slice(0, 2).join("/")));
    expect(wrong).toEqual([]);
  });

  it.each(services)("%s imports no other service", (service) => {
    const others = services.filter((other) => other !== service);
    const wrong = importsBelow(`services/${service}`).filter((each) => {
      if (others.some((name) => each.target.startsWith(`@whetstone/${name}`))) return true;
      const target = importedFile(each);
      return target !== undefined && !target.startsWith(`services/${service}/`);
    });
    expect(wrong).toEqual([]);
  });

  it.each(Object.keys(FOLDERS))("each folder of %s imports only what the table allows", (service) => {
    const table = FOLDERS[service] ?? {};
    const base = `services/${service}/src`;
    const wrong = programs(base).flatMap((each) => {
      const target = importedFile(each);
      if (!target?.endsWith(".ts") || dirname(target) === dirname(each.file)) return [];
      const [from, to] = [entryOf(table, base, each.file), entryOf(table, base, target)];
      return from === "." || table[from]?.includes(to) ? [] : [`${each.file} imports ${target}`];
    });
    expect(wrong).toEqual([]);
  });

  it.each(Object.keys(FOLDERS))("the table of %s allows nothing that nobody imports", (service) => {
    const table = FOLDERS[service] ?? {};
    const base = `services/${service}/src`;
    const used = new Set(
      programs(base).map((each) => {
        const target = importedFile(each);
        return `${entryOf(table, base, each.file)} -> ${target && entryOf(table, base, target)}`;
      }),
    );
    const allowed = Object.entries(table).flatMap(([from, targets]) => targets.map((target) => `${from} -> ${target}`));
    expect(allowed.filter((edge) => !used.has(edge))).toEqual([]);
  });

  it.each([...services, ...Object.keys(LIBRARIES).map((name) => `libs/${name}`)])(
    "no files of %s import each other in a ring, types included",
    (folder) => expect(rings(programs(`services/${folder}/src`))).toEqual([]),
  );

  it("files that only decide have no clock and no I/O", () => {
    const pure = new Set(
      PURE.flatMap((pattern) => globSync(pattern, { cwd: join(root, "services") }))
        .map((file) => `services/${file}`)
        .filter((file) => !isTest(file)),
    );
    const wrong = [...pure].flatMap((file) => [
      ...(/\bDate\.now\(|\bnew Date\(\)|\bset(Timeout|Interval)\(/.test(readFileSync(join(root, file), "utf8"))
        ? [`${file} looks at the clock`]
        : []),
      ...importsOf(file)
        .filter(({ typeOnly }) => !typeOnly)
        .filter((each) => {
          const target = importedFile(each);
          return target === undefined
            ? /^node:(fs|net|http|child_process|timers)/.test(each.target)
            : !pure.has(target) && target.includes("/src/");
        })
        .map(({ target }) => `${file} imports ${target}`),
    ]);
    expect(wrong).toEqual([]);
  });

  it("only tests import the testkit", () => {
    expect(programs("services").filter(({ target }) => target.startsWith("@whetstone/testkit"))).toEqual([]);
  });
});
