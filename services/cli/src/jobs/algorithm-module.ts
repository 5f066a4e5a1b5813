// SPDX-License-Identifier: Apache-2.0
/** The Python file of a job's own algorithm. In a job file it is a path; in a job's spec it is the text, with its digest. */
import { createHash } from "node:crypto";
import { readFileSync } from "node:fs";
import { resolve } from "node:path";

import { badInput } from "../cli-error.ts";

const PATH = "algorithm.policyGradient.module";
/** As the trainer's `MAX_BYTES`. */
const MAX_BYTES = 64 * 1024;

/**
 * Puts text and digest in place of the path, which counts from `folder`, the job file's own. A module that has its digest is
 * text already. @throws bad input naming the setting and the file
 */
export function readAlgorithmModule(document: Record<string, unknown>, folder: string): void {
  const algorithm = mapping(document["algorithm"]);
  const options = mapping(algorithm?.["policyGradient"]);
  const path = options?.["module"];
  if (options === undefined || typeof path !== "string" || path === "" || options["moduleDigest"] !== undefined) return;
  const module = textOf(resolve(folder, path));
  const moduleDigest = createHash("sha256").update(module).digest("hex");
  document["algorithm"] = { ...algorithm, policyGradient: { ...options, module, moduleDigest } };
}

function textOf(file: string): string {
  const bytes = bytesOf(file);
  if (bytes.length === 0) throw refused(file, "is empty");
  if (bytes.length > MAX_BYTES) throw refused(file, `has ${bytes.length} bytes, at most ${MAX_BYTES} are possible`);
  try {
    return new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes);
  } catch {
    throw refused(file, "is not UTF-8");
  }
}

function bytesOf(file: string): Uint8Array {
  try {
    return readFileSync(file);
  } catch (error) {
    const code = (error as NodeJS.ErrnoException).code;
    throw refused(file, code === "ENOENT" ? "does not exist" : `cannot be read (${code})`);
  }
}

function refused(file: string, reason: string): Error {
  return badInput([{ path: PATH, reason: `${file} ${reason}` }]);
}

function mapping(value: unknown): Record<string, unknown> | undefined {
  return typeof value === "object" && value !== null ? (value as Record<string, unknown>) : undefined;
}
