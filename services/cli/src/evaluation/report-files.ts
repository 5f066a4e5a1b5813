// SPDX-License-Identifier: Apache-2.0
/** Reports of evaluations on disk. */
import { mkdir, readFile, rename, writeFile } from "node:fs/promises";
import { join } from "node:path";

import { type EvaluationReport, readReport } from "@whetstone/sdk";

import { badInput } from "../cli-error.ts";
import { reportHtml } from "./eval-html.ts";

/** Writes report.json and report.html into a folder, each whole or not at all. */
export async function writeReport(folder: string, report: EvaluationReport): Promise<void> {
  await mkdir(folder, { recursive: true });
  await replace(join(folder, "report.html"), reportHtml(report));
  await replace(join(folder, "report.json"), `${JSON.stringify(report, null, 1)}\n`);
}

/** @throws bad input when the file is not there, or no report */
export async function loadReport(path: string): Promise<EvaluationReport> {
  try {
    return readReport(JSON.parse(await readFile(path, "utf8")), path);
  } catch (error) {
    const code = (error as NodeJS.ErrnoException).code;
    if (error instanceof SyntaxError) throw badInput([{ path, reason: `is not JSON: ${error.message}` }]);
    if (code === "ENOENT") throw badInput([{ path, reason: "does not exist" }]);
    if (code === "EISDIR") throw badInput([{ path, reason: "is a folder: name the report.json in it" }]);
    throw error;
  }
}

async function replace(path: string, text: string): Promise<void> {
  await writeFile(`${path}.draft`, text);
  await rename(`${path}.draft`, path);
}
