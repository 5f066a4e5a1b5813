// SPDX-License-Identifier: Apache-2.0
import { createHash } from "node:crypto";

const LONGEST = 52;

/**
 * The name of a job that has none of its own: its file's, and a digest of all that it says, code included. The same job again is
 * the same name, so it is taken up again; after any change it is a new job. "src/My job.ts" → "my-job-3f2a9c1e".
 */
export function jobName(file: string, document: Readonly<Record<string, unknown>>): string {
  const digest = createHash("sha256").update(JSON.stringify(document)).digest("hex").slice(0, 8);
  const base = (file.split(/[\\/]/).at(-1) ?? "").replace(/\.[^.]*$/, "").toLowerCase();
  const label = base
    .replace(/[^a-z0-9]+/g, "-")
    .replace(/^-+/, "")
    .slice(0, LONGEST - 9)
    .replace(/-+$/, "");
  return `${label === "" ? "job" : label}-${digest}`;
}
