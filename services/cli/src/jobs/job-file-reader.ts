// SPDX-License-Identifier: Apache-2.0
/** Reads a job file: YAML, or JSON, which is YAML. */
import { readFileSync } from "node:fs";
import { dirname, resolve } from "node:path";

import { LineCounter, parse, parseDocument } from "yaml";

import { badInput } from "../cli-error.ts";
import { parseAssignment, setPath } from "./set-path.ts";

/** The folder that relative paths in a job file are meant from. */
export function jobFolder(path: string): string {
  return dirname(resolve(path));
}

/** The document as it stands, to be changed by options and then checked. Throws bad input naming the file and line. */
export function parseFile(path: string): Record<string, unknown> {
  const lines = new LineCounter();
  const document = parseDocument(readText(path), { lineCounter: lines, prettyErrors: false });
  const [error] = document.errors;
  if (error) {
    const { line, col } = lines.linePos(error.pos[0]);
    throw badInput([{ path: `${path}:${line}:${col}`, reason: error.message }]);
  }
  const value: unknown = document.toJS();
  if (typeof value === "object" && value !== null && !Array.isArray(value)) return value as Record<string, unknown>;
  throw badInput([{ path, reason: "is not a job file: a mapping of settings is expected" }]);
}

/** Values are YAML too: `loop.steps=5` is a number, `loop.groupPolicy={drop: {}}` a mapping. */
export function applyAssignments(document: Record<string, unknown>, assignments: readonly string[]): void {
  for (const assignment of assignments) {
    const { path, value } = parseAssignment(assignment);
    setPath(document, path, parse(value) as unknown);
  }
}

function readText(path: string): string {
  try {
    return readFileSync(path, "utf8");
  } catch (error) {
    const code = (error as NodeJS.ErrnoException).code;
    const reason =
      code === "ENOENT" ? "does not exist" : code === "EISDIR" ? "is a folder" : `cannot be read (${code})`;
    throw badInput([{ path, reason }]);
  }
}
