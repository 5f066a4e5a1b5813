// SPDX-License-Identifier: Apache-2.0
import module, { type SourceMapping } from "node:module";
import { pathToFileURL } from "node:url";
import { WhetstoneError } from "@whetstone/core";
import type { Info } from "@whetstone/sdk";

export interface LoadOptions {
  /** Where the module seems to lie: its `import.meta.dirname`, and the files in its stack traces. */
  readonly folder: string;
}

/** The folder of modules that come from elsewhere: nothing can lie there, so that a forgotten import is an error. */
export const NOWHERE = "/whetstone-module";

const SDK = /^@whetstone\/(?:core$|sdk(?:$|\/))/;
const sources = new Map<string, Uint8Array>();
let loads = 0;
let hooked = false;

/**
 * Loads a bundled module in this process: only where its crash hurts nobody else. What it imports from `@whetstone/sdk` is
 * this process's own copy, so that `instanceof` holds. Stack traces name the user's files.
 * @throws what the module threw while it was loaded
 */
export async function loadModule(code: Uint8Array, { folder }: LoadOptions): Promise<Info> {
  installHooks();
  const url = pathToFileURL(`${folder}/module-${process.pid}-${(loads += 1)}.mjs`).href;
  sources.set(url, code);
  return (await import(url)) as Info;
}

function installHooks(): void {
  if (hooked) return;
  hooked = true;
  module.setSourceMapsSupport(true, { nodeModules: true, generatedCode: false });
  module.registerHooks({
    resolve(specifier, context, next) {
      if (sources.has(specifier)) return { url: specifier, shortCircuit: true };
      if (context.parentURL === undefined || !sources.has(context.parentURL)) return next(specifier, context);
      if (SDK.test(specifier)) return { url: import.meta.resolve(specifier), shortCircuit: true };
      if (module.isBuiltin(specifier)) return next(specifier, context);
      const reason = `the module imports "${specifier}" while it runs; only @whetstone/sdk and Node's own modules are there`;
      throw new WhetstoneError("TASK_INVALID", reason);
    },
    load(url, context, next) {
      const source = sources.get(url);
      if (source === undefined) return next(url, context);
      return { format: "module", source, shortCircuit: true };
    },
  });
}

/**
 * Where a user's function begins, "agents.ts:3", by its text in the modules loaded here: one that has returned a wrong value
 * is in no stack any more. Empty: it is in none of them, or in several.
 */
export function placeOfFunction(culprit: object, folder: string): string {
  if (typeof culprit !== "function") return "";
  const text = Function.prototype.toString.call(culprit);
  for (const [url, code] of sources) {
    const source = Buffer.from(code.buffer, code.byteOffset, code.byteLength).toString("utf8");
    const begin = source.indexOf(text);
    if (begin < 0 || source.indexOf(text, begin + 1) >= 0) continue;
    const lines = source.slice(0, begin).split("\n");
    const entry = module.findSourceMap(url)?.findEntry(lines.length - 1, (lines.at(-1) as string).length);
    const { originalSource, originalLine } = (entry ?? {}) as Partial<SourceMapping>;
    if (originalSource === undefined || originalLine === undefined) return `${fileOf(url, folder)}:${lines.length}`;
    return `${fileOf(originalSource, folder)}:${originalLine + 1}`;
  }
  return "";
}

function fileOf(url: string, folder: string): string {
  const path = url.replace(/^file:\/\//, "");
  return path.startsWith(`${folder}/`) ? path.slice(folder.length + 1) : path;
}

const FRAME = /\(?((?:file:\/\/)?\/[^()\s]+?):(\d+):(\d+)\)?$/;

/** The first line of user code in an error's stack, "agents.ts:3:7", relative to the module's folder. Empty: none. */
export function placeOf(error: unknown, folder: string): string {
  if (!(error instanceof Error) || error.stack === undefined) return "";
  for (const line of error.stack.split("\n")) {
    const [, file, row, column] = FRAME.exec(line.trim()) ?? [];
    const path = file?.replace(/^file:\/\//, "");
    if (path?.startsWith(`${folder}/`) && !path.includes("/node_modules/"))
      return `${path.slice(folder.length + 1)}:${row}:${column}`;
  }
  return "";
}
