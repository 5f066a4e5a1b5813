// SPDX-License-Identifier: Apache-2.0
// Who reads each setting of a job. `node tests/repo/settings.ts` prints the list.
import { execFileSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { join, relative } from "node:path";
import type { DescField, DescMessage } from "@bufbuild/protobuf";
import { JobSpecSchema } from "@whetstone/proto/jobs/v1/jobs";
import ts from "typescript";
import { isTest, root } from "./imports.ts";

/** These take a whole specification as it is: naming a field there gives it no effect. */
const CARRIERS = /^services\/(libs\/(sdk\/src\/job|contract)|cli\/src\/jobs|controller\/src\/jobs\/validation)\//;

export interface SettingReaders {
  /** "whetstone.jobs.v1.Loop.maxPolicyLag" */
  readonly field: string;
  /** Files of services and trainer, from the repository's root. */
  readonly readers: readonly string[];
}

export function settingReaders(): SettingReaders[] {
  const typescript = typescriptReads();
  const python = pythonReads();
  return [...messagesBelow(JobSpecSchema)].flatMap(({ typeName, fields }) =>
    fields.map((field) => ({
      field: `${typeName}.${field.localName}`,
      readers: [
        // Of a choice between several, the choice is read.
        ...(typescript.get(`${typeName}.${field.oneof?.localName ?? field.localName}`) ?? []),
        ...[...python].filter(([, names]) => names.has(field.name)).map(([file]) => file),
      ].toSorted(),
    })),
  );
}

/** Of our own package only: times and JSON values are somebody else's. */
function messagesBelow(top: DescMessage, seen = new Set<DescMessage>()): Set<DescMessage> {
  if (seen.has(top) || !top.typeName.startsWith("whetstone.")) return seen;
  seen.add(top);
  for (const field of top.fields) {
    const inner = messageOf(field);
    if (inner) messagesBelow(inner, seen);
  }
  return seen;
}

function messageOf(field: DescField): DescMessage | undefined {
  return field.fieldKind === "message" || field.fieldKind === "list" || field.fieldKind === "map"
    ? field.message
    : undefined;
}

/** Property accesses and destructurings by what the compiler says they are: a field of which message. */
function typescriptReads(): Map<string, Set<string>> {
  const config = ts.getParsedCommandLineOfConfigFile(
    join(root, "tsconfig.json"),
    {},
    {
      ...ts.sys,
      onUnRecoverableConfigFileDiagnostic: (problem) => {
        throw new Error(ts.flattenDiagnosticMessageText(problem.messageText, "\n"));
      },
    },
  );
  const files = (config?.fileNames ?? []).filter((file) => {
    const name = relative(root, file);
    return name.startsWith("services/") && !isTest(name) && !CARRIERS.test(name);
  });
  const program = ts.createProgram(files, config?.options ?? {});
  const checker = program.getTypeChecker();
  const reads = new Map<string, Set<string>>();
  const note = (symbol: ts.Symbol | undefined, file: string): void => {
    for (const declaration of symbol?.declarations ?? []) {
      const message = messageNameOf(declaration);
      if (message === undefined) continue;
      const key = `${message}.${symbol?.name}`;
      reads.set(key, (reads.get(key) ?? new Set()).add(file));
    }
  };
  for (const source of program.getSourceFiles()) {
    const file = relative(root, source.fileName);
    if (!file.startsWith("services/") || isTest(file) || CARRIERS.test(file)) continue;
    const visit = (node: ts.Node): void => {
      if (ts.isPropertyAccessExpression(node)) note(checker.getSymbolAtLocation(node.name), file);
      if (ts.isBindingElement(node)) {
        const name = node.propertyName ?? node.name;
        if (ts.isIdentifier(name)) note(checker.getTypeAtLocation(node.parent).getProperty(name.text), file);
      }
      ts.forEachChild(node, visit);
    };
    visit(source);
  }
  return reads;
}

/** The generated type says its message's name in its comment: `@generated from message whetstone.jobs.v1.Loop`. */
function messageNameOf(declaration: ts.Declaration): string | undefined {
  const text = declaration.getSourceFile();
  if (!text.fileName.includes("/proto/gen/ts/")) return undefined;
  let node: ts.Node | undefined = declaration;
  while (node && !ts.isTypeAliasDeclaration(node)) node = node.parent;
  const comment = node && text.text.slice(node.pos, node.getStart());
  return comment && /@generated from message ([\w.]+)/.exec(comment)?.[1];
}

function pythonReads(): Map<string, Set<string>> {
  const files = execFileSync("git", ["ls-files", "--", "python-trainer/src/whetstone_trainer/*.py"], { cwd: root });
  return new Map(
    files
      .toString()
      .trim()
      .split("\n")
      .map((file) => {
        const names = readFileSync(join(root, file), "utf8").matchAll(/\.([a-z_0-9]+)\b(?!\()/g);
        return [file, new Set([...names].map((match) => match[1] as string))];
      }),
  );
}

if (import.meta.main) {
  for (const { field, readers } of settingReaders()) console.log(`${field}: ${readers.join(", ") || "NOBODY"}`);
}
