// SPDX-License-Identifier: Apache-2.0
/** A job as the user wrote it: a YAML file, maybe with a module beside it, or a module that defines it. */
import { basename, dirname, extname, resolve } from "node:path";

import { bundleModule } from "@whetstone/modules/bundle";

import { jobName } from "./job-name.ts";
import { parseFile } from "./job-file-reader.ts";
import { readJobModule } from "../modules/module-reader.ts";

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
export async function openJob(path: string, signal?: AbortSignal): Promise<JobSource> {
  return CODE.has(extname(path)) ? ofModule(path, signal) : ofYaml(path);
}

async function ofYaml(path: string): Promise<JobSource> {
  const document = parseFile(path);
  const nameIfNone = (): void => undefined; // A name is part of such a file.
  const { path: module, ...others } = asModule(document["module"]);
  if (typeof module !== "string") return { document, code: new Uint8Array(), nameIfNone };
  const file = resolve(dirname(path), module);
  const { digest, code } = await bundleModule(file, { shownAs: `module: ${module}` });
  document["module"] = { digest, ...others };
  return { document, code, nameIfNone };
}

/** A path, or an object with more that the job says of its module. */
function asModule(given: unknown): { readonly path?: unknown } {
  return typeof given === "string" ? { path: given } : (given ?? {});
}

async function ofModule(path: string, signal: AbortSignal | undefined): Promise<JobSource> {
  const { digest, code } = await bundleModule(path, { shownAs: path });
  const folder = dirname(resolve(path));
  const { document, hasOwn } = await readJobModule({ code, folder, path }, { signal });
  if (hasOwn) document["module"] = { ...asModule(document["module"]), digest };
  else delete document["module"];
  const nameIfNone = (): void => void (document["name"] ??= jobName(basename(path), document));
  return { document, code: hasOwn ? code : new Uint8Array(), nameIfNone };
}
