// SPDX-License-Identifier: Apache-2.0
/** A job as the user wrote it: a YAML file, maybe with a module beside it, or a module that defines it. */
import { basename, dirname, extname, join, relative, resolve } from "node:path";

import { ConfigError } from "@whetstone/core";
import { loadModule, placeOf } from "@whetstone/modules";
import { bundleModule } from "@whetstone/modules/bundle";
import type { JobDefinition } from "@whetstone/sdk";

import { badInput } from "../domain/cli-error.ts";
import { jobName } from "../domain/job-name.ts";
import { parseFile } from "./job-file-reader.ts";

export interface JobSource {
  /** What a YAML job file holds, to be changed by options and then checked. `module` names the code by digest. */
  readonly document: Record<string, unknown>;
  /** The code of its module. Empty: it has none. */
  readonly code: Uint8Array;
  /** Names a job that was given no name; call it when the document has all that options changed. */
  readonly nameIfNone: () => void;
}

const CODE = new Set([".ts", ".mts", ".js", ".mjs"]);

/** @throws bad input naming file and line, whether of YAML or of code */
export async function openJob(path: string): Promise<JobSource> {
  return CODE.has(extname(path)) ? ofModule(path) : ofYaml(path);
}

async function ofYaml(path: string): Promise<JobSource> {
  const document = parseFile(path);
  const nameIfNone = (): void => undefined; // A name is part of such a file.
  const { module } = document;
  if (typeof module !== "string") return { document, code: new Uint8Array(), nameIfNone };
  const file = resolve(dirname(path), module);
  const { digest, code } = await bundleModule(file, { shownAs: `module: ${module}` });
  document["module"] = { digest };
  return { document, code, nameIfNone };
}

/** The module runs here, too: it is the user's own command. */
async function ofModule(path: string): Promise<JobSource> {
  const { digest, code } = await bundleModule(path, { shownAs: path });
  const folder = dirname(resolve(path));
  const definition = await readDefinition(code, { path, folder });
  const document: Record<string, unknown> = await placed(folder, path, () => definition.document());
  const hasOwn = definition.actors.length + definition.environments.length > 0;
  if (hasOwn) document["module"] = { digest };
  const nameIfNone = (): void => void (document["name"] ??= jobName(basename(path), document));
  return { document, code: hasOwn ? code : new Uint8Array(), nameIfNone };
}

async function readDefinition(code: Uint8Array, at: { path: string; folder: string }): Promise<JobDefinition> {
  const exports = await placed(at.folder, at.path, () => loadModule(code, { folder: at.folder }));
  const candidates = [exports["default"], ...Object.values(exports)];
  const found = candidates.map(definitionOf).find((definition) => definition !== undefined);
  if (found !== undefined) return found;
  throw badInput([{ path: at.path, reason: "exports no job: `export default defineJob({…})` from @whetstone/sdk" }]);
}

/** A job, or the one of a trainer. */
function definitionOf(exported: unknown): JobDefinition | undefined {
  if (typeof exported !== "object" || exported === null) return undefined;
  const { definition = exported } = exported as { definition?: unknown };
  return (definition as { form?: unknown } | null)?.form === "job" ? (definition as JobDefinition) : undefined;
}

/** Runs user code; what it throws is bad input at its line. */
async function placed<T>(folder: string, path: string, work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    if (error instanceof ConfigError) throw error; // Names the setting.
    const place = placeOf(error, folder);
    const where = place === "" ? path : join(relative(process.cwd(), folder), place);
    throw badInput([{ path: where, reason: error instanceof Error ? error.message : String(error) }]);
  }
}
