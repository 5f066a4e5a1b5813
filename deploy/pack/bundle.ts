// SPDX-License-Identifier: Apache-2.0
/** Bundles TypeScript for Node: our own workspaces go in, npm packages stay imports. */
import { readFileSync } from "node:fs";
import { dirname, join, relative, sep } from "node:path";
import { build, type Plugin } from "esbuild";
import { ROOT } from "./workspaces.ts";

export interface Bundle {
  /** Source file by name of the output. */
  readonly entries: Readonly<Record<string, string>>;
  /** Outputs and chunks lie flat in it. */
  readonly folder: string;
  /** Imports that stay imports, under the name given. */
  readonly shared: Readonly<Record<string, string>>;
}

/** Answers the npm packages that the outputs import. */
export async function bundle({ entries, folder, shared }: Bundle): Promise<string[]> {
  const programs = new Programs();
  const { metafile } = await buildOnce({ entries, folder, shared }, programs);
  // Programs that the code starts by their URL are known once the code has been read.
  const all = { ...entries, ...programs.entries };
  const known = Object.keys(programs.entries).length;
  const outputs = known > 0 ? (await buildOnce({ entries: all, folder, shared }, programs)).metafile : metafile;
  if (Object.keys(programs.entries).length !== known)
    throw new Error("a program that is started by URL starts another");
  const imports = Object.values(outputs.outputs).flatMap((output) => output.imports);
  const external = imports.filter((found) => found.external === true && !found.path.startsWith("node:"));
  return [...new Set(external.map((found) => packageOf(found.path)))];
}

function buildOnce({ entries, folder, shared }: Bundle, programs: Programs) {
  return build({
    entryPoints: entries,
    outdir: folder,
    bundle: true,
    splitting: true,
    format: "esm",
    platform: "node",
    target: "node24",
    chunkNames: "chunk-[hash]",
    metafile: true,
    keepNames: true,
    legalComments: "none",
    logLevel: "warning",
    absWorkingDir: ROOT,
    plugins: [boundaries(shared), programs.plugin],
  });
}

/** What is bundled, and what stays an import. */
function boundaries(shared: Bundle["shared"]): Plugin {
  return {
    name: "boundaries",
    setup(builder) {
      builder.onResolve({ filter: /^[^./]/ }, ({ path, kind }) => {
        if (kind === "entry-point") return undefined;
        const name = packageOf(path);
        if (shared[name] !== undefined) return { path: path.replace(name, shared[name]), external: true };
        return name.startsWith("@whetstone/") ? undefined : { path, external: true };
      });
    },
  };
}

const PROGRAM = /new URL\(\s*"(\.{1,2}\/[^"]+\.ts)",\s*import\.meta\.url,?\s*\)/g;

/** `new URL("./host/main.ts", import.meta.url)` names a program: it becomes an output of its own. */
class Programs {
  readonly entries: Record<string, string> = {};

  readonly plugin: Plugin = {
    name: "programs",
    setup: (builder) => {
      builder.onLoad({ filter: /[\\/]src[\\/].*\.ts$/ }, ({ path }) => {
        const text = readFileSync(path, "utf8");
        const contents = text.replaceAll(PROGRAM, (_, program: string) => {
          const file = join(dirname(path), program);
          const name = outputName(file);
          this.entries[name] = file;
          return `new URL("./${name}.js", import.meta.url)`;
        });
        return { contents, loader: "ts" };
      });
    },
  };
}

/** services/rollout-orchestrator/src/host/main.ts → "rollout-orchestrator-host-main". */
function outputName(file: string): string {
  const parts = relative(join(ROOT, "services"), file).replace(/\.ts$/, "").split(sep);
  return parts.filter((part) => part !== "src" && part !== "libs").join("-");
}

function packageOf(specifier: string): string {
  return specifier
    .split("/")
    .slice(0, specifier.startsWith("@") ? 2 : 1)
    .join("/");
}
