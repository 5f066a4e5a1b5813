// SPDX-License-Identifier: Apache-2.0
import { statSync } from "node:fs";
import { readFile } from "node:fs/promises";
import { basename, dirname, relative, resolve } from "node:path";
import { ConfigError, type Violation } from "@whetstone/core";
import { build, type Message, type Plugin } from "esbuild";
import { digestOf, MAX_CODE_BYTES, type ModuleCode } from "./code.ts";

export interface BundleOptions {
  /** What violations call the entry, e.g. as the user typed it. Default: its base name. */
  readonly shownAs?: string;
}

/**
 * One ES module of a file and all that it imports, for Node 24; `@whetstone/sdk` stays an import, as the host has its own,
 * and so does the core below it, for modules in this repository.
 * The same sources give the same digest wherever they lie. Source lines are kept, so that errors name them.
 * @throws ConfigError with a violation per error, path "src/agents.ts:3:7".
 */
export async function bundleModule(path: string, options: BundleOptions = {}): Promise<ModuleCode> {
  const entry = resolve(path);
  const folder = dirname(entry);
  const shownAs = options.shownAs ?? basename(entry);
  if (!isFile(entry)) throw new ConfigError([{ path: shownAs, reason: "does not exist or is not a file" }]);
  let code = await codeOf(entry, { folder, shownAs, plugins: [] });
  if (code.length > MAX_CODE_BYTES) code = await codeOf(entry, { folder, shownAs, plugins: [WITHOUT_PACKAGE_MAPS] });
  if (code.length > MAX_CODE_BYTES) {
    const reason = `bundled it has ${code.length} bytes; at most ${MAX_CODE_BYTES} are taken: keep data in files of their own`;
    throw new ConfigError([{ path: shownAs, reason }]);
  }
  return { digest: digestOf(code), code };
}

/** Large agents' libraries bring megabytes of source maps; the lines that errors should name are the user's own. */
const WITHOUT_PACKAGE_MAPS: Plugin = {
  name: "without-package-maps",
  setup: (building) => {
    building.onLoad({ filter: /[\\/]node_modules[\\/].*\.[cm]?js$/ }, async ({ path }) => ({
      contents: `${await readFile(path, "utf8")}\n//# sourceMappingURL=${EMPTY_MAP}`,
    }));
  },
};
/** Of the file's first character only: one of none is not taken. */
const EMPTY_MAP = `data:application/json;base64,${btoa('{"version":3,"sources":["package"],"mappings":"AAAA"}')}`;

interface Wanted {
  readonly folder: string;
  readonly shownAs: string;
  readonly plugins: Plugin[];
}

/** @throws ConfigError */
async function codeOf(entry: string, { folder, shownAs, plugins }: Wanted): Promise<Uint8Array> {
  const { errors, outputFiles } = await bundle(entry, folder, plugins);
  if (errors.length > 0) throw new ConfigError(errors.map((error) => violationOf(error, shownAs, folder)));
  return outputFiles[0]?.contents ?? new Uint8Array();
}

type Built = Pick<Awaited<ReturnType<typeof build>>, "errors"> & {
  readonly outputFiles: readonly { readonly contents: Uint8Array }[];
};

async function bundle(entry: string, folder: string, plugins: Plugin[]): Promise<Built> {
  try {
    return await build({
      entryPoints: [entry],
      absWorkingDir: folder,
      outdir: folder,
      bundle: true,
      write: false,
      format: "esm",
      platform: "node",
      target: "node24",
      conditions: ["node", "import"],
      external: ["@whetstone/sdk", "@whetstone/sdk/*", "@whetstone/core"],
      sourcemap: "inline",
      sourcesContent: false,
      legalComments: "none",
      logLevel: "silent",
      plugins,
      // Packages in CommonJS call `require` for Node's own modules.
      banner: { js: REQUIRE },
    });
  } catch (error) {
    const { errors } = error as { errors?: Message[] };
    if (!Array.isArray(errors)) throw error;
    return { errors, outputFiles: [] };
  }
}

const REQUIRE =
  'import { createRequire as __whetstoneRequire } from "node:module"; globalThis.require ??= __whetstoneRequire("file:///whetstone/");';

function violationOf({ location, text, notes }: Message, shownAs: string, folder: string): Violation {
  const note = notes[0]?.text;
  const reason = note === undefined ? text : `${text} (${note})`;
  if (location === null) return { path: shownAs, reason };
  const file = relative(process.cwd(), resolve(folder, location.file));
  return { path: `${file}:${location.line}:${location.column + 1}`, reason };
}

function isFile(path: string): boolean {
  return statSync(path, { throwIfNoEntry: false })?.isFile() === true;
}
