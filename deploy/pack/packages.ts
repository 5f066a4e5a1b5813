// SPDX-License-Identifier: Apache-2.0
/** The packages that are published: what authors import, and the command line with everything that it runs. */
import { copyFileSync, cpSync, mkdirSync, rmSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { bundle } from "./bundle.ts";
import type { declarations as Declarations } from "./declarations.ts";
import { copyPython } from "./python.ts";
import { readWorkspaces, ROOT, versionsOf, type Workspace } from "./workspaces.ts";

export const SERVICES = ["controller", "rollout-orchestrator", "env-runner", "inference-gateway"];
/** Programs of a service's image beside its main one: the guard before vLLM, in engines' pods. */
const MORE_PROGRAMS: Readonly<Record<string, readonly string[]>> = { "inference-gateway": ["engine-proxy"] };
/** What authors import, a package each. The others import the SDK. */
export const LIBRARIES = ["sdk", "datasets", "graders", "sandbox", "code", "tools"];
/** One copy of core for all packages: errors are told apart by their class. */
const CORE = "internal/core";
/** What programs beside an installed SDK import from it. */
const FROM_SDK = { "@whetstone/sdk": "@whetstone/sdk", "@whetstone/core": `@whetstone/sdk/${CORE}` };
const BESIDE_SDK = {
  ...FROM_SDK,
  "@whetstone/graders": "@whetstone/graders",
  "@whetstone/sandbox": "@whetstone/sandbox",
};

type Json = Record<string, unknown>;

export async function buildLibrary(folder: string, name: string, { types = true } = {}): Promise<void> {
  const library = workspace(name);
  const isSdk = name === "sdk";
  const entries = Object.fromEntries(
    Object.entries(library.exports).map(([subpath, file]) => [entryName(subpath), join(library.folder, file)]),
  );
  const core = isSdk ? { core: join(workspace("core").folder, "src/index.ts") } : {};
  const dist = emptyFolder(folder);
  const shared = isSdk ? {} : BESIDE_SDK;
  const imported = await bundle({ entries: { ...entries, ...core }, folder: dist, shared });
  if (types) await declare(entries, dist, ["@whetstone/core"]);
  const exports = Object.keys(library.exports).map((subpath) => [subpath, typed(entryName(subpath))]);
  const own = isSdk ? { [`./${CORE}`]: "./dist/core.js" } : {};
  writeManifest(folder, library, {
    exports: { ...Object.fromEntries(exports), ...own, "./package.json": "./package.json" },
    files: ["dist"],
    dependencies: dependenciesOn(imported),
  });
  copyDocuments(folder, join(library.folder, "README.md"));
}

export async function buildCli(folder: string): Promise<void> {
  const cli = workspace("cli");
  const main = (service: string): [string, string] => [service, join(ROOT, "services", service, "src/main.ts")];
  const trainer = join(cli.folder, "src/trainer.ts");
  const entries = { whet: join(cli.folder, "src/main.ts"), trainer, ...Object.fromEntries(SERVICES.map(main)) };
  const dist = emptyFolder(folder);
  const imported = await bundle({ entries, folder: dist, shared: FROM_SDK });
  await declare({ trainer }, dist, []);
  writeManifest(folder, cli, {
    bin: { whet: "bin/whet.mjs" },
    exports: { "./trainer": typed("trainer"), "./package.json": "./package.json" },
    files: ["bin", "charts", "dist", "javascript", "python", "templates"],
    dependencies: dependenciesOn(imported),
  });
  for (const part of ["bin", "templates"]) cpSync(join(cli.folder, part), join(folder, part), { recursive: true });
  cpSync(join(ROOT, "charts"), join(folder, "charts"), { recursive: true });
  copyPython(join(folder, "python"));
  await writeJavaScriptTool(join(folder, "javascript"));
  copyDocuments(folder, join(cli.folder, "README.md"));
}

async function writeJavaScriptTool(folder: string): Promise<void> {
  mkdirSync(folder, { recursive: true });
  const { bundleJavaScriptTool } = await import("../../services/cli/src/tasks/javascript-tool.ts");
  const source = join(ROOT, "services/libs/swe/src/javascript/main.ts");
  writeFileSync(join(folder, "tool.cjs"), await bundleJavaScriptTool(source));
}

/** One service as a program, dist/main.js, beside the programs that it starts. Imports the SDK that `buildLibrary` made. */
export async function buildService(folder: string, service: string): Promise<void> {
  const programs = ["main", ...(MORE_PROGRAMS[service] ?? [])];
  const entries = Object.fromEntries(programs.map((name) => [name, join(ROOT, "services", service, `src/${name}.ts`)]));
  const imported = await bundle({ entries, folder: emptyFolder(folder), shared: FROM_SDK });
  writeManifest(folder, workspace(service), { dependencies: dependenciesOn(imported) });
}

const workspaces = readWorkspaces();

function workspace(name: string): Workspace {
  return workspaces.get(`@whetstone/${name}`) as Workspace;
}

/** Our own packages have one version together. */
function dependenciesOn(imported: readonly string[]): Record<string, string> {
  const versions = imported.map((name) => [name, workspaces.get(name)?.version]);
  const ours = Object.fromEntries(versions.filter(([, version]) => version !== undefined)) as Record<string, string>;
  const others = imported.filter((name) => ours[name] === undefined);
  return { ...ours, ...versionsOf(others, workspaces.values()) };
}

/** "." → "index", "./testing" → "testing". */
function entryName(subpath: string): string {
  return subpath === "." ? "index" : subpath.slice(2).replaceAll("/", "-");
}

/** Loaded when it is needed: images are built without the compiler. */
async function declare(...args: Parameters<typeof Declarations>): Promise<void> {
  const { declarations } = await import("./declarations.ts");
  await declarations(...args);
}

function typed(name: string): Json {
  return { types: `./dist/${name}.d.ts`, default: `./dist/${name}.js` };
}

/** Answers its dist/. */
function emptyFolder(folder: string): string {
  rmSync(folder, { recursive: true, force: true });
  const dist = join(folder, "dist");
  mkdirSync(dist, { recursive: true });
  return dist;
}

function writeManifest(folder: string, { name, version, description }: Workspace, more: Json): void {
  const manifest = {
    name,
    version,
    description,
    license: "Apache-2.0",
    type: "module",
    engines: { node: ">=24.2" },
    ...more,
  };
  writeFileSync(join(folder, "package.json"), `${JSON.stringify(manifest, null, 2)}\n`);
}

function copyDocuments(folder: string, readme: string): void {
  copyFileSync(readme, join(folder, "README.md"));
  copyFileSync(join(ROOT, "LICENSE"), join(folder, "LICENSE"));
  mkdirSync(dirname(folder), { recursive: true });
}
