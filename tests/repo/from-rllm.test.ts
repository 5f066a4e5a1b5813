// SPDX-License-Identifier: Apache-2.0
// docs/from-rllm.md says where each name of rLLM is here: what it says must exist, and its example must compile.
import { readFileSync } from "node:fs";
import { join } from "node:path";
import type { Command } from "commander";
import ts from "typescript";
import { beforeAll, describe, expect, it } from "vitest";
import type { CommandContext } from "../../services/cli/src/commands/context.ts";
import { buildProgram } from "../../services/cli/src/program.ts";

const root = join(import.meta.dirname, "../..");
const text = readFileSync(join(root, "docs/from-rllm.md"), "utf8");
const indexes = ["sdk", "datasets", "graders", "tools", "code", "swe", "mcp", "browser", "search"].map((name) =>
  join(root, `services/libs/${name}/src/index.ts`),
);
const example = join(root, "tests/repo/from-rllm.example.ts");
const tables = text.slice(text.indexOf("## Data"));
const rows = tables
  .split("\n")
  .filter((line) => line.startsWith("| ") && !/^\| (---|rLLM)/.test(line))
  .map((line) =>
    line
      .split("|")
      .slice(1, -1)
      .map((cell) => cell.trim()),
  );
const places = [
  ...new Set(rows.flatMap(([, here = ""]) => [...here.matchAll(/`([^`]+)`/g)].map((m) => m[1] as string))),
];

describe("docs/from-rllm.md", () => {
  let program: ts.Program;
  let exported: Map<string, ts.Symbol>;
  let jobOptions: ts.Type;
  beforeAll(() => {
    program = compile();
    const checker = program.getTypeChecker();
    const symbols = indexes.flatMap((path) => {
      const index = program.getSourceFile(path) as ts.SourceFile;
      return checker.getExportsOfModule(checker.getSymbolAtLocation(index) as ts.Symbol);
    });
    const real = (symbol: ts.Symbol): ts.Symbol =>
      symbol.flags & ts.SymbolFlags.Alias ? checker.getAliasedSymbol(symbol) : symbol;
    exported = new Map(symbols.map((symbol) => [symbol.name, real(symbol)]));
    jobOptions = checker.getDeclaredTypeOfSymbol(exported.get("JobOptions") as ts.Symbol);
  });

  it("has a place for every row, or says why there is none", () => {
    expect(rows.length).toBeGreaterThan(150);
    const bare = rows.filter(([, here, note]) => (here === "–" ? note === "" : !here?.startsWith("`")));
    expect(bare).toEqual([]);
  });

  it("names only what the SDK exports, what a job can say, and commands that exist", () => {
    const checker = program.getTypeChecker();
    expect(
      places.filter((place) => !place.startsWith("whet ") && !isExport(place, checker) && !isSetting(place)),
    ).toEqual([]);
  });

  it.each(places.filter((place) => place.startsWith("whet ")))("%s is a command", async (command) => {
    await using opened = new AsyncDisposableStack();
    const [, ...names] = command.split(" ");
    const program: Command | undefined = buildProgram({} as CommandContext, [], { exitCode: 0 }, opened);
    const found = names.reduce(
      (at: Command | undefined, name) => at?.commands.find((one) => one.name() === name),
      program,
    );
    expect(found?.description()).toBeTruthy();
  });

  it("has an example that compiles as it stands", () => {
    const file = program.getSourceFile(example) as ts.SourceFile;
    const found = [...program.getSyntacticDiagnostics(file), ...program.getSemanticDiagnostics(file)];
    expect(found.map(({ messageText }) => ts.flattenDiagnosticMessageText(messageText, "\n"))).toEqual([]);
  });

  /** "Workflow" or "Workflow.commit": a class's static and instance members, an interface's, an object's. */
  function isExport(place: string, checker: ts.TypeChecker): boolean {
    const [name = "", member] = place.split(".");
    const symbol = exported.get(name);
    if (symbol === undefined || member === undefined) return symbol !== undefined;
    const types = [checker.getDeclaredTypeOfSymbol(symbol), checker.getTypeOfSymbol(symbol)];
    return types.some((type) => checker.getPropertyOfType(type, member) !== undefined);
  }

  /** "limits.maxSteps": a path in the options of `defineJob`. */
  function isSetting(place: string): boolean {
    const checker = program.getTypeChecker();
    let types = [jobOptions];
    for (const key of place.split(".")) {
      const parts = types.flatMap((type) => (type.isUnion() ? type.types : [type]));
      const found = parts
        .map((type) => checker.getPropertyOfType(type, key))
        .filter((property) => property !== undefined);
      types = found.map((property) => checker.getTypeOfSymbol(property));
    }
    return types.length > 0;
  }
});

/** What authors import, and the document's example as if it were a file of this folder. */
function compile(): ts.Program {
  const code = /```ts\n([\s\S]*?)```/.exec(text)?.[1] ?? "";
  const { config } = ts.readConfigFile(join(root, "tsconfig.json"), (path) => readFileSync(path, "utf8"));
  const { options } = ts.convertCompilerOptionsFromJson((config as { compilerOptions: object }).compilerOptions, root);
  const host = ts.createCompilerHost(options);
  const [exists, read] = [host.fileExists.bind(host), host.getSourceFile.bind(host)];
  const format = { languageVersion: ts.ScriptTarget.ES2024, impliedNodeFormat: ts.ModuleKind.ESNext } as const;
  host.fileExists = (path) => path === example || exists(path);
  host.getSourceFile = (path, ...rest) =>
    path === example ? ts.createSourceFile(path, code, format, true) : read(path, ...rest);
  return ts.createProgram([...indexes, example], options, host);
}
